/** Decisions without I/O: leases, sequences, damage, progress, pending calls. Time is passed in. */
package speed.internal.core;
