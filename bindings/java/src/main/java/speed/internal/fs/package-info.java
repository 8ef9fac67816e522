/** The only code that opens files: lanes, bells, claims, entries, watching. */
package speed.internal.fs;
