//! Quantization in the standard's own operators, for every float graph.
