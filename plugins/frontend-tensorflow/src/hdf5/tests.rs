use super::heap::Fractal;
use super::source::Hdf5Source;
use super::testing::{Message, Writer, contiguous, text};
use super::{Content, Error, Hdf5File, sum};
use onnxd_plugin_sdk::testing::mutations::Mutations;

/// Groups of a file that are visited, and how deep they are.
const GROUPS_MAX: usize = 1_000;
const DEPTH_MAX: usize = 20;
/// Bytes that a tensor may have in a test, whose code is not optimized.
const BYTES_MAX: u64 = 16 << 20;
const NOWHERE: [u8; 8] = [0xff; 8];

/// What a tensor holds, as bytes.
fn content(file: &Hdf5File, path: &str) -> Result<Vec<u8>, String> {
    let read = || -> super::Result<Option<Vec<u8>>> {
        let Some(dataset) = file.dataset(path)? else { return Ok(None) };
        Ok(match dataset.content()? {
            Content::View(bytes) => Some(bytes.to_vec()),
            Content::Packed(size) if size <= BYTES_MAX => Some(dataset.read()?),
            _ => None,
        })
    };
    match read() {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err("absent".to_owned()),
        Err(Error::Damaged(what)) => Err(format!("damaged: {what}")),
        Err(Error::Unknown(what)) => Err(format!("unknown: {what}")),
    }
}

/// Reads everything in a file; how many tensors it has.
fn everything(file: &Hdf5File) -> usize {
    let mut open = vec![String::new()];
    let mut found = 0;
    for _ in 0..GROUPS_MAX {
        let Some(group) = open.pop() else { break };
        let inside = |name: &String| format!("{group}/{name}");
        if let Some(mut all) = file.attributes(&group) {
            for name in ["fixed", "variable-list", "long0", "list7"] {
                let _ = all.words(name);
            }
        }
        let tensors = file.datasets(&group).unwrap_or_default();
        found += tensors.iter().filter(|name| content(file, &inside(name)).is_ok()).count();
        if group.split('/').count() <= DEPTH_MAX {
            open.extend(file.groups(&group).unwrap_or_default().iter().map(inside));
        }
    }
    found
}

/// The files that h5py wrote.
fn fixtures() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hdf5/fixtures");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "h5")).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn fuzzing() {
    let words: [&[u8]; 6] =
        [b"SNOD", b"TREE", b"OHDR", &NOWHERE, &[0; 8], &[1, 0, 0, 0, 0, 0, 0, 0]];
    Mutations::of("hdf5", fixtures(), &words).run(|bytes| {
        let open = Hdf5File::open_changed(bytes.to_vec().into());
        open.map_or(0, |file| everything(&file))
    });
}

#[test]
fn files_that_are_cut_off_do_not_panic() {
    for bytes in fixtures() {
        for end in (0..bytes.len()).step_by(97) {
            let cut = bytes[..end].to_vec();
            let _ = Hdf5File::open(cut.clone().into()).map(|file| everything(&file));
            let _ = Hdf5File::open_changed(cut.into()).map(|file| everything(&file));
        }
    }
}

#[test]
fn checksums_are_those_of_their_inventors() {
    assert_eq!(sum::lookup3(b""), 0xdead_beef);
    assert_eq!(sum::lookup3(b"Four score and seven years ago"), 0x1777_0551);
    assert_eq!(sum::fletcher32(b"abcde"), 0x4ff0_29c7);
}

#[test]
fn a_changed_part_does_not_have_its_checksum() {
    for bytes in fixtures().into_iter().filter(|bytes| bytes[8] == 3) {
        let mut changed = bytes.clone();
        changed[12] ^= 1;
        let found = Hdf5File::open(changed.into()).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains("checksum"), "{found}");
    }
}

#[test]
fn a_file_that_is_cut_off_says_so() {
    let mut file = Writer::new();
    let root = file.group(&[], &[text("name", "value")]);
    let mut bytes = file.done(root);
    let size = bytes.len();
    bytes.truncate(size - 8);
    let found = Hdf5File::open(bytes.into()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(found, format!("it ends after {} of {size} bytes", size - 8));
}

/// A file of one tensor of two floats.
fn file_of(layout: impl Fn(u64) -> Vec<u8>, more: &[Message]) -> Hdf5File {
    let mut file = Writer::new();
    let data = file.put(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let tensor = file.tensor(&[2], layout(data), more);
    let root = file.group(&[("x", tensor)], &[]);
    Hdf5File::open(file.done(root).into()).unwrap()
}

#[test]
fn layouts_of_all_versions() {
    let all = vec![1, 2, 3, 4, 5, 6, 7, 8];
    let nines = [0, 0, 16, 65].repeat(2);
    let fill = |kind: u16, head: &[u8]| (kind, [head, &[4, 0, 0, 0, 0, 0, 16, 65]].concat());
    let read =
        |layout: &dyn Fn(u64) -> Vec<u8>, more: &[Message]| content(&file_of(layout, more), "x");
    let compact = |version: u8| {
        let head: &[u8] = if version < 3 {
            &[version, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0]
        } else {
            &[3, 0, 8, 0]
        };
        [head, &all].concat()
    };
    let nowhere = |_| contiguous(u64::MAX, 8);
    for version in [1, 2, 3] {
        assert_eq!(read(&|_| compact(version), &[]), Ok(all.clone()));
    }
    for version in [1, 2] {
        let old = |at: u64| {
            [&[version, 1, 1, 0, 0, 0, 0, 0], &at.to_le_bytes()[..], &[2, 0, 0, 0]].concat()
        };
        assert_eq!(read(&old, &[]), Ok(all.clone()));
    }
    assert_eq!(read(&|at| contiguous(at, 8), &[]), Ok(all.clone()));
    assert_eq!(read(&nowhere, &[]), Ok(vec![0; 8]));
    assert_eq!(read(&nowhere, &[fill(4, &[])]), Ok(nines.clone()));
    assert_eq!(read(&nowhere, &[fill(5, &[1, 1, 1, 1])]), Ok(nines.clone()));
    assert_eq!(read(&nowhere, &[fill(5, &[2, 1, 1, 1])]), Ok(nines.clone()));
    assert_eq!(read(&nowhere, &[(5, vec![2, 1, 1, 0])]), Ok(vec![0; 8]));
    assert_eq!(read(&nowhere, &[fill(5, &[3, 0x29])]), Ok(nines));
    let wide =
        fill(5, &[3, 0x29]).1.iter().map(|byte| if *byte == 4 { 3 } else { *byte }).collect();
    let refused = read(&nowhere, &[(5, wide)]).unwrap_err();
    assert!(refused.contains("another size"), "{refused}");
    let short = read(&|at| contiguous(at, 7), &[]).unwrap_err();
    assert!(short.starts_with("damaged: a tensor is smaller"), "{short}");
}

#[test]
fn what_is_not_read_is_named() {
    let chunked = |version: u8| {
        move |at: u64| [&[version, 2, 2], &at.to_le_bytes()[..], &[2, 0, 0, 0, 4, 0, 0, 0]].concat()
    };
    let filters =
        |id: u16| (0x0b, [&[1, 1, 0, 0, 0, 0, 0, 0][..], &id.to_le_bytes(), &[0; 6]].concat());
    let refusals = [
        (
            content(&file_of(chunked(3), &[filters(32000)]), "x"),
            "unknown: the filter 32000 of chunks",
        ),
        (content(&file_of(|_| vec![3, 3], &[]), "x"), "unknown: a layout of class 3"),
        (content(&file_of(|_| vec![9], &[]), "x"), "unknown: a layout of version 9"),
        (
            content(&file_of(|at| contiguous(at, 8), &[(7, vec![0; 8])]), "x"),
            "unknown: a tensor in another file",
        ),
        (content(&file_of(chunked(3), &[]), "x"), "damaged: there is no `TREE` at 96"),
    ];
    for (found, expected) in refusals {
        assert_eq!(found, Err(expected.to_owned()));
    }
}

#[test]
fn names_of_links_and_attributes() {
    let mut file = Writer::new();
    let data = file.put(&[0; 8]);
    let tensor = file.tensor(&[2], contiguous(data, 8), &[]);
    let inner = file.group(&[("x", tensor)], &[text("", "nothing"), text("k", "v  \0\0")]);
    let root = file.group(&[("inner", inner), ("nowhere", u64::MAX), ("y", tensor)], &[]);
    let file = Hdf5File::open(file.done(root).into()).unwrap();
    assert_eq!(file.groups("").unwrap(), ["inner"]);
    assert_eq!(file.datasets("/").unwrap(), ["y"]);
    assert!(file.has_group("/inner//") && !file.has_group("y") && !file.has_group("inner/x"));
    assert!(file.dataset("inner/x").unwrap().is_some() && file.dataset("y/x").unwrap().is_none());
    let mut all = file.attributes("inner").unwrap();
    assert_eq!(all.words("k").unwrap(), ["v  "]);
    assert!(all.has("") && !all.has("v"));
}

/// Bytes with their checksum.
fn sealed(parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    let sum = sum::lookup3(&bytes).to_le_bytes();
    [&bytes[..], &sum].concat()
}

#[test]
fn objects_beside_a_heap_and_in_their_ids() {
    let mut file = Writer::new();
    let large = file.put(b"large").to_le_bytes();
    let (five, seven) = (5u64.to_le_bytes(), 7u64.to_le_bytes());
    let leaf = file.put(&sealed(&[b"BTLF\0\x01", &large, &five, &seven])).to_le_bytes();
    let head: &[u8] = b"BTHD\0\x01\0\x02\0\0\x18\0\0\0\x64\x28";
    let tree = file.put(&sealed(&[head, &leaf, &[1, 0], &1u64.to_le_bytes()])).to_le_bytes();
    let mut heap = |id_width: u8| {
        let head = [b"FRHP\0", &[id_width, 0, 0, 0, 0, 0, 16, 0, 0][..], &[0; 8], &tree, &[0; 80]];
        let sizes = [&[4, 0][..], &512u64.to_le_bytes(), &4096u64.to_le_bytes(), &[32, 0, 1, 0]];
        file.put(&sealed(&[&head.concat(), &sizes.concat(), &NOWHERE, &[0, 0]]))
    };
    let heaps = [8, 17, 20].map(&mut heap);
    let source = Hdf5Source::new(file.done(0).into());
    let get = |heap: usize, id: &[u8]| {
        let id = [id, &[0; 20]].concat();
        let heap = Fractal::open(&source, heaps[heap]).unwrap();
        heap.get(&mut source.fields(&id)).map(<[u8]>::to_vec).map_err(|e| e.to_string())
    };
    assert_eq!(get(0, &[0x10, 7]).unwrap(), b"large");
    assert_eq!(get(1, &[&[0x10][..], &large, &five].concat()).unwrap(), b"large");
    assert_eq!(get(0, b"\x22abcd").unwrap(), b"abc");
    assert_eq!(get(2, b"\x20\x02abcd").unwrap(), b"abc");
    for id in [&[0x10, 6][..], &[0x2f], &[0x30], &[0, 1, 0, 0, 0, 1]] {
        assert!(get(0, id).is_err(), "{id:?}");
    }
}

/// A word in a collection is not read more often than the file can hold words.
#[test]
fn a_word_that_is_named_again_and_again_is_not_copied_without_end() {
    let words = |count: usize| {
        let mut file = Writer::new();
        let size = 60_000u64;
        let head = [&b"GCOL\x01\0\0\0"[..], &(size + 32).to_le_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0]];
        let heap = [&head.concat()[..], &size.to_le_bytes(), &vec![b'a'; size as usize]].concat();
        let heap = file.put(&heap);
        let one = [&(size as u32).to_le_bytes()[..], &heap.to_le_bytes(), &[1, 0, 0, 0]].concat();
        let list = [1, 0, 2, 0, 16, 0, 16, 0, b'w', 0, 0, 0, 0, 0, 0, 0].into_iter();
        let list = list.chain([0x19, 1, 0, 0, 16, 0, 0, 0, 0x13, 0, 0, 0, 1, 0, 0, 0]);
        let list = list.chain([1, 1, 0, 0, 0, 0, 0, 0]).chain((count as u64).to_le_bytes());
        let list = list.chain(one.repeat(count)).collect();
        let root = file.group(&[], &[(0x0c, list)]);
        Hdf5File::open(file.done(root).into()).unwrap().attributes("").unwrap().words("w")
    };
    assert_eq!(words(1).unwrap()[0].len(), 60_000);
    assert_eq!(words(3), None);
}
