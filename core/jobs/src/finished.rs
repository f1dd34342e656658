//! The packed jobs: which packs are in force, and where each job lies.
//!
//! `finished/NNNN.pack` holds jobs, and `copies/NNNN.pack` the same bytes. In memory is a row per
//! job; records are read when they are asked for.

use crate::crash;
use crate::frame::{FrameKind, frame_at};
use crate::mirror;
use crate::pack::{
    self, Builder, Listing, NOWHERE, PackRow, PackedJob, Spot, is_full, kept_at, opened, record_at,
};
use crate::record::{RecordError, decode};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{Job, Kept};
use prost::Message;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use ulid::Ulid;

/// A pack that is larger takes no more jobs.
const PACK_BYTES_MAX: u64 = 4 << 20;
/// A file beyond this is not ours.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Lost jobs that a note names.
const NAMED_MAX: usize = 5;

/// Where the files lie.
#[derive(Clone, Debug)]
pub(crate) struct PackFolders {
    finished: PathBuf,
    copies: PathBuf,
}

impl PackFolders {
    pub(crate) fn in_state(state: &Path) -> PackFolders {
        PackFolders { finished: state.join("finished"), copies: state.join("copies") }
    }

    fn paths(&self, number: u64) -> (PathBuf, PathBuf) {
        let name = format!("{number:04}.pack");
        (self.finished.join(&name), self.copies.join(name))
    }

    /// Numbers of the files that are there, finished or not.
    fn numbers(&self) -> io::Result<BTreeSet<u64>> {
        let mut numbers = BTreeSet::new();
        for folder in [&self.finished, &self.copies] {
            let entries = match fs::read_dir(folder) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let name = entry?.file_name();
                let number: Option<u64> =
                    name.to_str().and_then(|name| name.split_once('.')?.0.parse().ok());
                numbers.extend(number);
            }
        }
        Ok(numbers)
    }
}

#[derive(Debug)]
struct Pack {
    file: File,
    copy: Option<File>,
    bytes: u64,
    blocks: Vec<Option<Range<usize>>>,
    rows: Vec<PackRow>,
}

/// All packs in force.
#[derive(Debug)]
pub(crate) struct Finished {
    place: PackFolders,
    packs: BTreeMap<u64, Pack>,
    /// Pack and row of each job.
    jobs: BTreeMap<u128, (u64, u32)>,
    /// Digests, and the jobs that have them.
    digests: BTreeSet<(u64, u128)>,
    /// The block that was opened last.
    open: RefCell<Option<Opened>>,
}

#[derive(Clone, Debug)]
struct Opened {
    pack: u64,
    block: u32,
    entries: Rc<Vec<u8>>,
}

/// A pack that is on the disk and not in force yet.
pub(crate) struct NewPack {
    number: u64,
    pack: Pack,
    absorbed: Vec<u64>,
}

impl Finished {
    /// Reads the packs that `listed` names, or all where nothing names them. Others are what a
    /// crash left, and go.
    pub(crate) fn open(
        place: PackFolders,
        listed: Option<&[u64]>,
        notes: &mut Vec<String>,
    ) -> Result<Finished, Diagnostic> {
        let there = place.numbers().map_err(|e| disk("read", &place.finished, &e))?;
        let mut finished = Finished {
            place,
            packs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            digests: BTreeSet::new(),
            open: RefCell::default(),
        };
        for number in &there {
            let (path, copy) = finished.place.paths(*number);
            match listed {
                Some(listed) if !listed.contains(number) => {
                    mirror::remove(&path, &copy).map_err(|e| disk("remove", &path, &e))?;
                }
                _ => finished.read_pack(*number, notes)?,
            }
        }
        let missing = listed.unwrap_or_default().iter().filter(|number| !there.contains(number));
        notes.extend(missing.map(|number| {
            let (path, _) = finished.place.paths(*number);
            format!("{} is missing, and the finished jobs in it are lost", path.display())
        }));
        finished.choose_rows();
        Ok(finished)
    }

    fn read_pack(&mut self, number: u64, notes: &mut Vec<String>) -> Result<(), Diagnostic> {
        let (path, copy) = self.place.paths(number);
        for path in [&path, &copy] {
            let bytes = fs::metadata(path).map_or(0, |data| data.len());
            if bytes > FILE_BYTES_MAX {
                let e = io::Error::from(io::ErrorKind::FileTooLarge);
                return Err(disk("read", path, &e));
            }
        }
        let both = match mirror::read(&path, &copy) {
            // What a crash left of writing it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return mirror::remove(&path, &copy).map_err(|e| disk("remove", &path, &e));
            }
            both => both.map_err(|e| disk("read", &path, &e))?,
        };
        let listing =
            pack::list(&both.bytes).map_err(|_: RecordError| crate::journal::newer(&path))?;
        if both.differ {
            mirror::write(&path, &copy, &both.bytes).map_err(|e| disk("write", &path, &e))?;
            notes.push(format!("{}: file and copy differed, and were made equal", path.display()));
        }
        notes.extend(lost(&path, &listing));
        let pack = self.opened_pack(number, both.bytes.len() as u64, listing)?;
        self.packs.insert(number, pack);
        Ok(())
    }

    fn opened_pack(&self, number: u64, bytes: u64, listing: Listing) -> Result<Pack, Diagnostic> {
        let (path, copy) = self.place.paths(number);
        let file = File::open(&path).map_err(|e| disk("open", &path, &e))?;
        let Listing { blocks, rows, .. } = listing;
        Ok(Pack { file, copy: File::open(copy).ok(), bytes, blocks, rows })
    }

    /// Of several rows of a job, the one of its last change counts; of equal ones the newest pack's.
    fn choose_rows(&mut self) {
        for (number, pack) in &self.packs {
            for (at, row) in (0..).zip(&pack.rows) {
                let known = self.jobs.get(&row.id).and_then(|known| row_in(&self.packs, *known));
                if known.is_none_or(|known| known.seq <= row.seq) {
                    self.jobs.insert(row.id, (*number, at));
                }
            }
        }
        let rows = self.jobs.values().filter_map(|at| row_in(&self.packs, *at));
        self.digests = rows.flat_map(digests_of).collect();
    }

    /// The job's row, unless the job is not packed.
    pub(crate) fn row(&self, id: &str) -> Option<&PackRow> {
        let id = Ulid::from_string(id).ok()?;
        row_in(&self.packs, *self.jobs.get(&id.0)?)
    }

    /// All rows by id.
    pub(crate) fn rows(&self) -> impl DoubleEndedIterator<Item = &PackRow> {
        self.jobs.values().filter_map(|at| row_in(&self.packs, *at))
    }

    /// Rows whose ids are smaller than `below`, the greatest first.
    pub(crate) fn rows_below(&self, below: u128) -> impl Iterator<Item = &PackRow> {
        self.jobs.range(..below).rev().filter_map(|(_, at)| row_in(&self.packs, *at))
    }

    /// Rows whose ids lie in `ids`, in their order.
    pub(crate) fn rows_within(&self, ids: Range<u128>) -> impl Iterator<Item = &PackRow> {
        self.jobs.range(ids).filter_map(|(_, at)| row_in(&self.packs, *at))
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.packs.values().flat_map(|pack| &pack.rows).map(|row| row.seq).max().unwrap_or(0)
    }

    /// Numbers of the packs in force.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.packs.keys().copied().collect()
    }

    /// The job is no longer packed: dropped, or at hand again.
    pub(crate) fn forget(&mut self, id: &str) {
        let Ok(Ulid(id)) = Ulid::from_string(id) else { return };
        if let Some(at) = self.jobs.remove(&id)
            && let Some(row) = row_in(&self.packs, at)
        {
            digests_of(row).for_each(|digest| _ = self.digests.remove(&digest));
        }
    }

    /// Ids of jobs that packs hold and that are packed no more.
    pub(crate) fn gone(&self) -> BTreeSet<u128> {
        let rows = self.packs.values().flat_map(|pack| &pack.rows);
        rows.map(|row| row.id).filter(|id| !self.jobs.contains_key(id)).collect()
    }

    /// Packs all of whose jobs are gone.
    pub(crate) fn dead(&self) -> Vec<u64> {
        let is_dead =
            |(number, pack): &(&u64, &Pack)| self.live_rows(**number, pack).next().is_none();
        self.packs.iter().filter(is_dead).map(|(number, _)| *number).collect()
    }

    fn live_rows<'p>(
        &'p self,
        number: u64,
        pack: &'p Pack,
    ) -> impl Iterator<Item = (u32, &'p PackRow)> {
        let is_live =
            move |(at, row): &(u32, &PackRow)| self.jobs.get(&row.id) == Some(&(number, *at));
        (0..).zip(&pack.rows).filter(is_live)
    }

    /// Closes packs that are in force no more. Files that cannot be removed now, the next start
    /// removes.
    pub(crate) fn remove_packs(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.packs.remove(number);
            crash::point("pack to be removed");
            let (path, copy) = self.place.paths(*number);
            let _ = mirror::remove(&path, &copy);
        }
        self.open.take();
    }

    pub(crate) fn job(&self, row: &PackRow) -> Result<Job, Diagnostic> {
        let entries = self.entries(row.id, row.record)?;
        let job = record_at(&entries, row.record).and_then(|record| decode(record).ok());
        job.ok_or_else(|| unreadable(row.id))
    }

    pub(crate) fn kept(&self, row: &PackRow) -> Result<Kept, Diagnostic> {
        if row.kept == NOWHERE {
            return Ok(Kept::default());
        }
        let entries = self.entries(row.id, row.kept)?;
        let kept = kept_at(&entries, row.kept).and_then(|kept| Kept::decode(kept).ok());
        kept.ok_or_else(|| unreadable(row.id))
    }

    /// The newest packed job with this digest that is `wanted`.
    pub(crate) fn find(
        &self,
        digest: u64,
        wanted: impl Fn(&Job) -> bool,
    ) -> Result<Option<Job>, Diagnostic> {
        for (_, id) in self.digests.range((digest, 0)..=(digest, u128::MAX)).rev() {
            let row = self.jobs.get(id).and_then(|at| row_in(&self.packs, *at));
            let job = row.map(|row| self.job(row)).transpose()?;
            if let Some(job) = job.filter(&wanted) {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// The opened block of a job's entry.
    fn entries(&self, id: u128, spot: Spot) -> Result<Rc<Vec<u8>>, Diagnostic> {
        let pack = self.jobs.get(&id).map(|(pack, _)| *pack).unwrap_or_default();
        let open = self.open.borrow().clone();
        if let Some(open) = open.filter(|open| (open.pack, open.block) == (pack, spot.block)) {
            return Ok(open.entries);
        }
        let payload = self.packs.get(&pack).and_then(|pack| pack.payload(spot.block));
        let entries = payload.and_then(|(_, payload)| opened(&payload));
        let entries = Rc::new(entries.ok_or_else(|| unreadable(id))?);
        let opened = Opened { pack, block: spot.block, entries: Rc::clone(&entries) };
        self.open.replace(Some(opened));
        Ok(entries)
    }

    /// Brings a pack of `items` to the disk, together with what small packs hold.
    pub(crate) fn make(&self, items: &[PackedJob]) -> Result<NewPack, Diagnostic> {
        let number = self.packs.keys().last().map_or(1, |last| last + 1);
        let absorbed = self.to_absorb(items);
        let mut builder = Builder::default();
        for absorbed in &absorbed {
            self.absorb(*absorbed, &mut builder)?;
        }
        items.iter().for_each(|item| builder.push(item));
        let bytes = builder.finish();
        let (path, copy) = self.place.paths(number);
        let written = mirror::write(&path, &copy, &bytes).map_err(|e| disk("write", &path, &e));
        let made = written.and_then(|()| {
            let listing = pack::list(&bytes).map_err(|_| crate::journal::newer(&path))?;
            let pack = self.opened_pack(number, bytes.len() as u64, listing)?;
            Ok(NewPack { number, pack, absorbed })
        });
        // What is left of it is removed by the next start if it cannot be removed now.
        made.inspect_err(|_| drop(mirror::remove(&path, &copy)))
    }

    /// Like the digits of a counter: a pack goes into the next one unless it is larger. So a job is
    /// packed again a few times only, and there are few packs.
    fn to_absorb(&self, items: &[PackedJob]) -> Vec<u64> {
        let taken: usize = items.iter().map(|item| item.record.len() + item.kept.len()).sum();
        // About what compression makes of it.
        let mut bytes = taken as u64 / 8;
        let mut absorbed = Vec::new();
        for (number, pack) in self.packs.iter().rev() {
            if pack.bytes > bytes * 2 || bytes + pack.bytes > PACK_BYTES_MAX {
                break;
            }
            bytes += pack.bytes;
            absorbed.push(*number);
        }
        // Half of a pack may be of jobs that are gone.
        let mut half_dead = self.packs.iter().filter(|(number, pack)| {
            let live = self.live_rows(**number, pack).count();
            !absorbed.contains(number) && live * 2 < pack.rows.len()
        });
        let half_dead = half_dead.next().map(|(number, _)| *number);
        absorbed.extend(half_dead);
        absorbed.sort_unstable();
        absorbed
    }

    fn absorb(&self, number: u64, builder: &mut Builder) -> Result<(), Diagnostic> {
        let Some(pack) = self.packs.get(&number) else { return Ok(()) };
        let live: HashMap<u32, usize> =
            self.live_rows(number, pack).map(|(at, row)| (at, builder.row(*row))).collect();
        // Rows with entries in each block, and what they have become.
        let mut users: BTreeMap<u32, Vec<(&PackRow, Option<usize>)>> = BTreeMap::new();
        for (at, row) in (0..).zip(&pack.rows) {
            for spot in [row.record, row.kept].into_iter().filter(|spot| *spot != NOWHERE) {
                users.entry(spot.block).or_default().push((row, live.get(&at).copied()));
            }
        }
        for (block, users) in users {
            let lost = || unreadable(users[0].0.id);
            let (kind, payload) = pack.payload(block).ok_or_else(lost)?;
            let spot = |row: &PackRow| if kind == FrameKind::Kept { row.kept } else { row.record };
            let spots: Option<Vec<(usize, Spot)>> =
                users.iter().map(|(row, new)| Some(((*new)?, spot(row)))).collect();
            if let Some(spots) = spots.filter(|_| is_full(&payload)) {
                builder.push_block(kind, &payload, &spots);
                continue;
            }
            let entries = opened(&payload).ok_or_else(lost)?;
            for (row, new) in users.iter().filter_map(|(row, new)| Some((row, (*new)?))) {
                match kind {
                    FrameKind::Kept => {
                        let kept = kept_at(&entries, row.kept).ok_or_else(lost)?;
                        builder.push_kept(new, kept);
                    }
                    _ => {
                        let record = record_at(&entries, row.record).ok_or_else(lost)?;
                        builder.push_record(new, record);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes a pack that does not come into force.
    pub(crate) fn discard(&self, made: &NewPack) {
        let (path, copy) = self.place.paths(made.number);
        // What cannot be removed now, the next start removes.
        let _ = mirror::remove(&path, &copy);
    }

    /// The pack is in force, and those that it absorbed are not.
    pub(crate) fn adopt(&mut self, made: NewPack) {
        let NewPack { number, pack, absorbed } = made;
        for (at, row) in (0..).zip(&pack.rows) {
            self.jobs.insert(row.id, (number, at));
            self.digests.extend(digests_of(row));
        }
        self.packs.insert(number, pack);
        self.remove_packs(&absorbed);
    }
}

impl NewPack {
    /// Numbers of the packs in force, with this one.
    pub(crate) fn numbers(&self, finished: &Finished) -> Vec<u64> {
        let others = finished.packs.keys().filter(|number| !self.absorbed.contains(number));
        others.copied().chain([self.number]).collect()
    }
}

impl Pack {
    /// A block as it lies in the file, or in its copy where the file is damaged.
    fn payload(&self, block: u32) -> Option<(FrameKind, Vec<u8>)> {
        let place = self.blocks.get(block as usize)?.as_ref()?;
        let read = |file: &File| {
            let mut bytes = vec![0; place.len()];
            file.read_exact_at(&mut bytes, place.start as u64).ok()?;
            let (frame, _) = frame_at(&bytes)?;
            Some((frame.kind?, frame.payload.to_vec()))
        };
        read(&self.file).or_else(|| self.copy.as_ref().and_then(read))
    }
}

fn digests_of(row: &PackRow) -> impl Iterator<Item = (u64, u128)> {
    let id = row.id;
    row.digests.into_iter().filter(|digest| *digest != 0).map(move |digest| (digest, id))
}

fn row_in(packs: &BTreeMap<u64, Pack>, (pack, row): (u64, u32)) -> Option<&PackRow> {
    packs.get(&pack)?.rows.get(row as usize)
}

fn lost(path: &Path, listing: &Listing) -> Option<String> {
    let named: Vec<String> =
        listing.lost.iter().take(NAMED_MAX).map(|id| Ulid(*id).to_string()).collect();
    let count = listing.lost.len();
    let more = if count > NAMED_MAX { ", ..." } else { "" };
    (count > 0).then(|| {
        format!("{}: {count} finished jobs are lost: {}{more}", path.display(), named.join(", "))
    })
}

fn unreadable(id: u128) -> Diagnostic {
    let message = format!("The record of the finished job {} is unreadable", Ulid(id));
    Diagnostic::new(Code::Disk, message).help("Start the daemon again: it restores what it can.")
}

fn disk(verb: &str, path: &Path, e: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::Disk, format!("Cannot {verb} {}: {e}", path.display()))
}

/// What the packs below a state folder keep of jobs whose ids begin with `prefix`, by id. Needs no
/// lock: packs never change.
pub fn kept_in_packs(state: &Path, prefix: &str) -> Result<Vec<(String, Kept)>, Diagnostic> {
    let place = PackFolders::in_state(state);
    let Some(ids) = crate::id::beginning_with(prefix) else { return Ok(Vec::new()) };
    let mut found = BTreeMap::new();
    for number in place.numbers().map_err(|e| disk("read", &place.finished, &e))? {
        let (path, copy) = place.paths(number);
        // A pack that was absorbed meanwhile is a part of a newer one.
        let Ok(bytes) = mirror::read_either(&path, &copy) else { continue };
        let listing = pack::list(&bytes).map_err(|_: RecordError| crate::journal::newer(&path))?;
        for row in listing.rows.iter().filter(|row| ids.contains(&row.id)) {
            let place = listing.blocks.get(row.kept.block as usize).cloned().flatten();
            let frame = place.and_then(|place| frame_at(&bytes[place]));
            let entries = frame.and_then(|(frame, _)| opened(frame.payload));
            let kept = entries.and_then(|e| Kept::decode(kept_at(&e, row.kept)?).ok());
            found.insert(Ulid(row.id).to_string(), kept.unwrap_or_default());
        }
    }
    Ok(found.into_iter().collect())
}
