//! The zip container of `.keras` files. Stored members are slices of the mapped file; deflated ones are inflated.

use super::config::damaged;
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use std::cell::RefCell;
use std::io::{Cursor, Read};
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

/// Members of an archive; Keras writes three, and one for each asset.
const MEMBERS_MAX: usize = 10_000;
/// Bytes to which a member may be inflated, whatever the size of the file.
const INFLATED_FREE: u64 = 256 << 20;
/// How many times the size of the file it may be inflated to beyond that.
const INFLATED_RATIO_MAX: u64 = 16;

pub(crate) struct Archive {
    bytes: Bytes,
    zip: RefCell<ZipArchive<Cursor<Bytes>>>,
}

impl Archive {
    /// Reads the directory of the archive.
    ///
    /// # Errors
    /// `N0201` if it is damaged, `N0213` for too many members.
    pub(crate) fn open(bytes: Bytes) -> Result<Archive, Diagnostic> {
        if announced(&bytes) > MEMBERS_MAX {
            return Err(too_many());
        }
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, Cursor::new(bytes.clone())).map_err(|e| {
            damaged(format!("The archive has no sound directory: {}.", shown(&e.to_string())))
        })?;
        if zip.len() > MEMBERS_MAX {
            return Err(too_many());
        }
        if zip.has_duplicate_names() {
            return Err(damaged("The archive has two members of one name."));
        }
        Ok(Archive { bytes, zip: RefCell::new(zip) })
    }

    /// The bytes of a member.
    ///
    /// # Errors
    /// `N0201` if there is none or it is damaged, `N0203` for unknown compression, `N0213` if it is too large.
    pub(crate) fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        let member = shown(name).to_string();
        let mut zip = self.zip.borrow_mut();
        let Some(index) = zip.index_for_name(name) else {
            return Err(damaged(format!("The archive has no `{member}`.")));
        };
        let broken = |e: &dyn std::fmt::Display| {
            damaged(format!(
                "The member `{member}` of the archive is damaged: {}.",
                shown(&e.to_string())
            ))
        };
        let raw = zip.by_index_raw(index).map_err(|e| broken(&e))?;
        let (packed, size, method) = (raw.compressed_size(), raw.size(), raw.compression());
        let begin = raw.data_start().unwrap_or(u64::MAX);
        if raw.encrypted() {
            let message = format!("The member `{member}` of the archive is encrypted.");
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        }
        drop(raw);
        let end = begin.checked_add(packed).filter(|end| *end <= self.bytes.len() as u64);
        let Some(end) = end else { return Err(broken(&"it reaches beyond the file")) };
        match method {
            CompressionMethod::Stored if packed == size => {
                Ok(self.bytes.slice(begin as usize..end as usize))
            }
            CompressionMethod::Deflated => {
                let most =
                    (self.bytes.len() as u64).saturating_mul(INFLATED_RATIO_MAX).max(INFLATED_FREE);
                if size > most {
                    let message =
                        format!("The member `{member}` of the archive inflates to {size} bytes.");
                    return Err(Diagnostic::new(Code::SourceLimit, message));
                }
                let mut all = Vec::new();
                let mut reader = zip.by_index(index).map_err(|e| broken(&e))?.take(size + 1);
                reader.read_to_end(&mut all).map_err(|e| broken(&e))?;
                match all.len() as u64 == size {
                    true => Ok(all.into()),
                    false => Err(broken(&"its size is another one than it says")),
                }
            }
            _ => Err(broken(&"it is packed in an unknown way")),
        }
    }

    /// The version of Keras that wrote the file.
    pub(crate) fn keras_version(&self) -> String {
        let metadata = self.read("metadata.json").ok();
        let json =
            metadata.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        let version = json.as_ref().and_then(|json| json.get("keras_version")?.as_str());
        version.unwrap_or("3").to_owned()
    }
}

fn too_many() -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, format!("The archive has more than {MEMBERS_MAX} members."))
}

/// The number of members that the end of the directory announces, which the zip reader makes room for.
fn announced(bytes: &[u8]) -> usize {
    const END: &[u8] = b"PK\x05\x06";
    const BEHIND_MAX: usize = 66_000;
    let tail = &bytes[bytes.len().saturating_sub(BEHIND_MAX)..];
    let at = tail.windows(4).rposition(|window| window == END);
    let count = at.and_then(|at| Some([*tail.get(at + 10)?, *tail.get(at + 11)?]));
    count.map_or(0, |count| u16::from_le_bytes(count) as usize)
}
