//! Copies of results that an earlier job has brought out, for drops that it has answered.

use std::fs;
use std::io;
use std::path::Path;

use crossbeam_channel::Sender;
use onnxd_files::{copy, own_folder, regular_beneath};
use onnxd_proto::onnxd::{Job, Kept};

use super::publication::{through, write_receipt};
use super::receipt::is_result_of;
use crate::conversion::files::{inner, sync};
use crate::conversion::publish;
use crate::run::event::{Copy, Event};
use crate::run::layout::Folders;

/// Whether the result of a job is where it was brought.
pub(crate) fn is_there(job: &Job) -> bool {
    is_result_of(job.published.as_ref(), &job.id)
}

/// What the thread needs that copies the result of an earlier job.
pub(crate) struct Copying {
    /// The job that gets the copy.
    pub(crate) job: Job,
    pub(crate) earlier: Job,
    /// What the store keeps of its folder, if it is packed: its report, unless that is large.
    pub(crate) kept: Option<Kept>,
    pub(crate) folders: Folders,
    pub(crate) mode: u32,
    pub(crate) events: Sender<Event>,
}

impl Copying {
    /// What the thread does. Its event is [`Event::Copied`].
    pub(crate) fn into_thread(self) -> impl FnOnce() + Send + 'static {
        move || {
            let id = self.job.id.clone();
            let done = Box::new(self.run().map_err(|e| e.to_string()));
            // Without a receiver the daemon has ended; the next one begins again.
            let _ = self.events.send(Event::Copied { job: id, done });
        }
    }

    fn run(&self) -> io::Result<Copy> {
        let packed = self.kept.as_ref().map(|kept| &kept.report);
        let report = match packed.filter(|report| !report.is_empty()) {
            Some(report) => report.clone(),
            None => fs::read(self.folders.job(&self.earlier.id).report())?.into(),
        };
        let from = Path::new(&self.earlier.published);
        copied(self.job.clone(), &report, from, &self.folders, self.mode)
    }
}

/// Copies the outputs of an earlier result, each compared with the digest that the daemon kept:
/// whoever takes results away can also change them.
fn copied(
    mut job: Job,
    report: &[u8],
    earlier: &Path,
    folders: &Folders,
    mode: u32,
) -> io::Result<Copy> {
    let other = io::Error::other;
    let text = str::from_utf8(report).map_err(|why| other(why.to_string()))?;
    let report = onnxd_report::from_json(text).map_err(|why| other(why.to_string()))?;
    let from = own_folder(earlier)?;
    let dest = folders.free_destination(&job)?;
    job.published = dest.to_string_lossy().into_owned();
    let name = folders.job(&job.id).result(job.lease);
    let name = Path::new(name.file_name().unwrap_or_default());
    let staged = through(&folders.passage(&job), name, |part| {
        fs::create_dir(part)?;
        for file in &report.outputs {
            let path = inner(&file.path).ok_or_else(|| other(file.path.clone()))?;
            let to = part.join(&path);
            fs::create_dir_all(to.parent().unwrap_or(part))?;
            let copied = copy(&regular_beneath(&from, &path)?, &new_file(&to)?)?;
            if copied.sha256 != file.sha256 {
                return Err(other(format!("`{}` changed since it was published", file.path)));
            }
        }
        publish::write_views(&report, part)?;
        write_receipt(part, &job)?;
        sync(part, Some(mode))
    })?;
    Ok(Copy { identity: job.identity, of: job.duplicate_of, staged, dest })
}

fn new_file(path: &Path) -> io::Result<fs::File> {
    fs::File::options().read(true).write(true).create_new(true).open(path)
}
