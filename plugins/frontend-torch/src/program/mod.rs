//! Exported programs: the graph that `torch.export.save` writes.
