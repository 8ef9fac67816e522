/** How records of a program travel as values: {@link speed.values.Member} names what differs from the record itself. */
package speed.values;
