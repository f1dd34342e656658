//! FlatBuffers: tables of little-endian fields that refer to each other by offsets.
//!
//! Nothing is trusted: each offset is checked where it is followed. A file that ends where a table goes on is at
//! fault; a field that a table does not have is at its default.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse};
use std::cell::Cell;

/// Tables that are visited. Some ten thousands are in a large model.
const TABLES_MAX: usize = 1 << 18;

/// Numbers and characters that are taken out of vectors, which tables may share.
const ITEMS_MAX: usize = 1 << 25;

/// What reading gives.
pub(crate) type FlatResult<T> = Result<T, Diagnostic>;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) struct FlatFile<'f> {
    bytes: &'f [u8],
    tables: Cell<usize>,
    items: Cell<usize>,
}

fn outside() -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, "The file refers to places outside of it.")
}

impl<'f> FlatFile<'f> {
    pub(crate) fn new(bytes: &'f [u8]) -> FlatFile<'f> {
        FlatFile { bytes, tables: Cell::new(0), items: Cell::new(0) }
    }

    /// The table that the whole file is.
    ///
    /// # Errors
    /// `N0201` if there is none.
    pub(crate) fn root(&self) -> FlatResult<FlatTable<'_>> {
        self.table(self.follow(0)?)
    }

    fn raw<const N: usize>(&self, at: usize) -> FlatResult<[u8; N]> {
        let bytes = at.checked_add(N).and_then(|end| self.bytes.get(at..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(outside)
    }

    /// Where the offset at `at` leads.
    fn follow(&self, at: usize) -> FlatResult<usize> {
        let offset = u32::from_le_bytes(self.raw(at)?) as usize;
        at.checked_add(offset).filter(|to| offset > 0 && *to < self.bytes.len()).ok_or_else(outside)
    }

    fn table(&self, at: usize) -> FlatResult<FlatTable<'_>> {
        self.tables.set(self.tables.get() + 1);
        refuse!(self.tables.get() > TABLES_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("The file has more than {TABLES_MAX} tables.")));
        let back = i32::from_le_bytes(self.raw(at)?);
        let vtable = i64::try_from(at).ok().map(|at| at - i64::from(back));
        let vtable = vtable.and_then(|to| usize::try_from(to).ok()).ok_or_else(outside)?;
        let size = u16::from_le_bytes(self.raw(vtable)?) as usize;
        // Two numbers stand before the places of the fields.
        let fields = vtable.checked_add(size).and_then(|end| self.bytes.get(vtable..end));
        let fields = fields.and_then(|fields| fields.get(4..)).ok_or_else(outside)?;
        Ok(FlatTable { file: self, at, fields })
    }
}

/// A table of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatTable<'f> {
    file: &'f FlatFile<'f>,
    at: usize,
    /// Where its fields are, two bytes each.
    fields: &'f [u8],
}

/// A number as files have it.
pub(crate) trait Scalar: Copy + Default {
    /// Its bytes.
    const SIZE: usize;

    /// The number of as many bytes.
    fn of(bytes: &[u8]) -> Option<Self>;
}

macro_rules! scalars {
    ($($ty:ty)*) => {
        $(impl Scalar for $ty {
            const SIZE: usize = size_of::<$ty>();
            fn of(bytes: &[u8]) -> Option<$ty> { Some(<$ty>::from_le_bytes(bytes.try_into().ok()?)) }
        })*
    };
}

scalars! { u8 i8 u16 i16 u32 i32 u64 i64 f32 }

impl Scalar for bool {
    const SIZE: usize = 1;

    fn of(bytes: &[u8]) -> Option<bool> {
        Some(*bytes.first()? != 0)
    }
}

impl<'f> FlatTable<'f> {
    /// Where the field with this number is, if the table has it.
    fn place(&self, slot: usize) -> Option<usize> {
        let offset: [u8; 2] = self.fields.get(2 * slot..2 * slot + 2)?.try_into().ok()?;
        let offset = u16::from_le_bytes(offset);
        (offset != 0).then(|| self.at + usize::from(offset))
    }

    /// A number, if the table has it.
    ///
    /// # Errors
    /// `N0201` if it is outside of the file.
    pub(crate) fn number<T: Scalar>(&self, slot: usize) -> FlatResult<Option<T>> {
        let Some(at) = self.place(slot) else { return Ok(None) };
        let bytes = self.file.bytes.get(at..at.saturating_add(T::SIZE));
        bytes.and_then(T::of).map(Some).ok_or_else(outside)
    }

    /// A number; zero if the table does not have it.
    ///
    /// # Errors
    /// As [`FlatTable::number`].
    pub(crate) fn scalar<T: Scalar>(&self, slot: usize) -> FlatResult<T> {
        Ok(self.number(slot)?.unwrap_or_default())
    }

    /// A table inside of this one.
    ///
    /// # Errors
    /// `N0201` if it is outside of the file.
    pub(crate) fn table(&self, slot: usize) -> FlatResult<Option<FlatTable<'f>>> {
        let Some(at) = self.place(slot) else { return Ok(None) };
        self.file.table(self.file.follow(at)?).map(Some)
    }

    /// Counts items that are taken out of a vector.
    fn take(&self, count: usize) -> FlatResult<()> {
        self.file.items.set(self.file.items.get().saturating_add(count));
        refuse!(self.file.items.get() > ITEMS_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("The file lists more than {ITEMS_MAX} numbers.")));
        Ok(())
    }

    /// Bytes of the items of a vector, and where they begin.
    fn items(&self, slot: usize, size: usize) -> FlatResult<(usize, &'f [u8])> {
        let Some(at) = self.place(slot) else { return Ok((0, &[])) };
        let at = self.file.follow(at)?;
        let count = u32::from_le_bytes(self.file.raw(at)?) as usize;
        let length = count.checked_mul(size).ok_or_else(outside)?;
        let bytes = self.file.bytes.get(at + 4..).and_then(|rest| rest.get(..length));
        Ok((at + 4, bytes.ok_or_else(outside)?))
    }

    /// A vector of numbers; empty if the table does not have it.
    ///
    /// # Errors
    /// `N0201` if it is outside of the file.
    pub(crate) fn numbers<T: Scalar>(&self, slot: usize) -> FlatResult<Vec<T>> {
        let (_, bytes) = self.items(slot, T::SIZE)?;
        self.take(bytes.len() / T::SIZE)?;
        Ok(bytes.chunks_exact(T::SIZE).filter_map(T::of).collect())
    }

    /// A vector of bytes, and where in the file it begins.
    ///
    /// # Errors
    /// `N0201` if it is outside of the file.
    pub(crate) fn bytes(&self, slot: usize) -> FlatResult<(usize, &'f [u8])> {
        self.items(slot, 1)
    }

    /// A text; empty if the table does not have it.
    ///
    /// # Errors
    /// `N0201` if it is outside of the file.
    pub(crate) fn text(&self, slot: usize) -> FlatResult<String> {
        let (_, bytes) = self.items(slot, 1)?;
        self.take(bytes.len())?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// What `f` reads of each table of a vector; nothing if the table does not have it.
    ///
    /// # Errors
    /// `N0201` if it, or one of them, is outside of the file; those of `f`.
    pub(crate) fn each<T>(
        &self,
        slot: usize,
        mut f: impl FnMut(&FlatTable<'f>) -> FlatResult<T>,
    ) -> FlatResult<Vec<T>> {
        let (start, bytes) = self.items(slot, 4)?;
        let places = (0..bytes.len() / 4).map(|i| start + 4 * i);
        places.map(|at| f(&self.file.table(self.file.follow(at)?)?)).collect()
    }
}
