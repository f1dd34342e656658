//! Quantization in the way of N2D2: integers throughout, scales folded into the layers.
