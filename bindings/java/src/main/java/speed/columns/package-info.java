/** Columns: many values of one kind side by side, what a data frame hands to a service (registry_spec/columns.md). */
package speed.columns;
