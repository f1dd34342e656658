//! Headers of arrays that were dropped: front-ends learn from them which inputs a network has.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic, shown};
use crate::ir::DataType;

/// What the file says of an array beside its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHeader {
    /// Its name in the archive.
    pub name: String,
    /// Type of its elements.
    pub dtype: DataType,
    /// Its sizes.
    pub dims: Vec<usize>,
}

impl Submission {
    /// The headers of the arrays of a `.npz` archive, in the order of the file.
    ///
    /// # Errors
    /// `N0103` if the file was not dropped, `N0107` if it cannot be read, `N0508` if it is no such archive.
    pub fn arrays(&self, path: &str) -> Result<Vec<ArrayHeader>, Diagnostic> {
        let wrong = |why: String| {
            Diagnostic::new(Code::ArrayFile, format!("`{}`: {}", shown(path), shown(&why)))
        };
        let found = onnxd_arrays::stored(&self.read(path)?, "array").map_err(wrong)?;
        let header = |array: &onnxd_arrays::StoredArray| ArrayHeader {
            name: array.name().to_owned(),
            dtype: array.dtype(),
            dims: array.dims().to_vec(),
        };
        Ok(found.iter().map(header).collect())
    }
}
