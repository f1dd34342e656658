//! Runs a program on the values of a graph.
