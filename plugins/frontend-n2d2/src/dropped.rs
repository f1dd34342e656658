//! The files of a submission as the readers of this crate want them.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::{Room, Submission};

use crate::diag::{Diagnostic, Diagnostics};
use crate::ini::{Files, Opened};

/// Files that are mapped when they are first read, and what went wrong with that.
pub(crate) struct Dropped<'s> {
    submission: &'s Submission,
    contents: BTreeMap<&'s str, OnceCell<Option<Bytes>>>,
    failures: RefCell<Diagnostics>,
}

impl<'s> Dropped<'s> {
    pub(crate) fn new(submission: &'s Submission) -> Dropped<'s> {
        let contents = submission.files().map(|(path, _)| (path, OnceCell::new())).collect();
        Dropped { submission, contents, failures: RefCell::default() }
    }

    /// A file that cannot be read is no missing file: that is what has to be reported.
    pub(crate) fn check(&self) -> Result<(), Diagnostics> {
        self.failures.take().or_ok(())
    }

    fn map(&self, path: &str) -> Option<Bytes> {
        self.or_failure(self.submission.read(path))
    }

    fn or_failure<T>(&self, found: Result<T, Diagnostic>) -> Option<T> {
        found.map_err(|failure| self.failures.borrow_mut().push(failure)).ok()
    }
}

impl Files for Dropped<'_> {
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>> {
        let content = self.contents.get(path)?.get_or_init(|| self.map(path));
        content.as_ref().map(|bytes| Cow::Borrowed(bytes.as_ref()))
    }

    fn bytes(&self, path: &str) -> Option<Bytes> {
        self.contents.get(path)?.get_or_init(|| self.map(path)).clone()
    }

    fn open(&self, path: &str) -> Option<Opened<'_>> {
        self.contents.get(path)?;
        let parts = self.or_failure(self.submission.open(path))?;
        Some(Opened { bytes: parts.byte_len(), content: Box::new(parts) })
    }

    fn room(&self, dtype: DataType, dims: &[usize]) -> Result<Room, Diagnostic> {
        self.submission.room(dtype, dims)
    }

    fn has(&self, path: &str) -> bool {
        self.contents.contains_key(path)
    }

    fn has_folder(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.contents.range(prefix.as_str()..).next().is_some_and(|(p, _)| p.starts_with(&prefix))
    }
}
