/** Example programs: the flights example's rules service, and a client of its other services. */
package speed.examples;
