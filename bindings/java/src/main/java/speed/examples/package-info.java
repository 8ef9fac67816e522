/** Example programs: the flights example's rules service, a client of its other services, the orders example's shop. */
package speed.examples;
