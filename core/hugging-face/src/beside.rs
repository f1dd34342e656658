//! Names of files: the folder that one lies in, and endings.

/// The ending of files of GGUF.
pub(crate) const GGUF: &str = ".gguf";

/// The folder of the network: empty, or ends with `/`.
pub(crate) fn folder_of(network: &str) -> &str {
    &network[..network.rfind('/').map_or(0, |at| at + 1)]
}
