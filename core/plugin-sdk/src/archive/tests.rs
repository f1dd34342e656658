use super::*;
use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};
use std::io::{Cursor, Write};

/// An archive of members; names that end with `.py` are deflated.
fn archive(members: &[(&str, &[u8])]) -> Bytes {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let method = match name.ends_with(".py") {
            true => CompressionMethod::Deflated,
            false => CompressionMethod::Stored,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("a buffer takes all of it");
        zip.write_all(bytes).expect("a buffer takes all of it");
    }
    zip.finish().expect("a buffer takes all of it").into_inner().into()
}

fn refused(bytes: Vec<u8>) -> String {
    Archive::open(bytes.into()).unwrap_err().into_finding().message
}

/// Replaces bytes wherever they are.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(i, _)| i).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    bytes
}

/// Where the central directory describes member `index`.
fn directory(bytes: &[u8], index: usize) -> usize {
    let places = bytes.windows(4).enumerate().filter(|(_, w)| *w == b"PK\x01\x02");
    places.map(|(at, _)| at).nth(index).unwrap()
}

#[test]
fn stored_members_are_slices_and_deflated_ones_are_kept() {
    let bytes = archive(&[("net/data/0", b"elements"), ("net/code/a.py", &[b'x'; 999])]);
    let archive = Archive::open(bytes.clone()).unwrap();
    assert!(archive.names().eq(["code/a.py", "data/0"]));
    assert!(archive.has("data/0") && archive.has_folder("data/") && !archive.has("net/data/0"));
    let stored = archive.read("data/0").unwrap();
    assert_eq!(stored, "elements");
    assert!(bytes.as_ptr_range().contains(&stored.as_ptr()));
    let code = archive.read("code/a.py").unwrap();
    assert_eq!(code, [b'x'; 999][..]);
    assert_eq!(code.as_ptr(), archive.read("code/a.py").unwrap().as_ptr());
    assert!(archive.read("none").unwrap_err().message.contains("no `none`"));
}

#[test]
fn only_a_folder_of_all_members_is_taken_away() {
    let open = |members: &[(&str, &[u8])]| Archive::open(archive(members)).unwrap();
    let names = |archive: &Archive| archive.names().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&open(&[("a/x", b""), ("b/y", b"")])), ["a/x", "b/y"]);
    assert_eq!(names(&open(&[("a/x", b""), ("a/", b""), ("a/b/c", b"")])), ["b/c", "x"]);
}

#[test]
fn foreign_names_are_refused() {
    for name in ["a/../b", "/etc/passwd", "a\\b", ".."] {
        // The writer takes such names only in disguise.
        let disguised = "#".repeat(name.len());
        let bytes = archive(&[("a/x", b"1"), (&disguised, b"2")]);
        let why = refused(replaced(&bytes, disguised.as_bytes(), name.as_bytes()));
        assert!(why.contains("member of name"), "{name}: {why}");
    }
    let twice = replaced(&archive(&[("a/x", b"1"), ("a/#", b"2")]), b"a/#", b"a/x");
    assert!(refused(twice).contains("two members of one name"));
}

#[test]
fn members_stay_in_their_place() {
    let bytes = archive(&[("a/x", b"first"), ("a/y", b"second")]);
    let same = |at: usize, to: u32| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + 4].copy_from_slice(&to.to_le_bytes());
        bytes
    };
    // The second header is where the first one is.
    assert!(refused(same(directory(&bytes, 1) + 42, 0)).contains("overlaps"));
    for size in [6, 300, u32::MAX - 1] {
        let mut longer = same(directory(&bytes, 0) + 20, size);
        longer[directory(&bytes, 0) + 24..][..4].copy_from_slice(&size.to_le_bytes());
        let archive = Archive::open(longer.into()).unwrap();
        let why = archive.read("x").unwrap_err().into_finding().message;
        assert!(why.contains("reaches into the next one") || why.contains("member `x`"), "{why}");
        assert_eq!(archive.read("y").unwrap(), "second");
    }
    let two = Archive::open(same(directory(&bytes, 0) + 24, 9).into()).unwrap();
    assert!(two.read("x").unwrap_err().message.contains("two sizes, 5 and 9"));
}

#[test]
fn members_of_any_archive_have_their_checksums() {
    let bytes = archive(&[("a/x", b"first"), ("a/y.py", b"second"), ("a/z", b"third")]);
    let other = |index: usize| {
        let mut bytes = bytes.to_vec();
        let at = directory(&bytes, index) + 16;
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    for (index, name) in [(0, "x"), (1, "y.py")] {
        let archive = Archive::open_any(other(index)).unwrap();
        let found = archive.read(name).unwrap_err();
        assert!(found.message.contains("checksum"), "{found}");
        assert_eq!(archive.read("z").unwrap(), "third");
        let archive = Archive::open(other(index)).unwrap();
        assert!(archive.read(name).is_ok() && archive.read("z").is_ok());
        assert_eq!(archive.wrong_checksums(), [name]);
    }
    // A checksum that was left out says nothing.
    let mut without = bytes.to_vec();
    let at = directory(&bytes, 0) + 16;
    without[at..at + 4].fill(0);
    let archive = Archive::open(without.into()).unwrap();
    assert_eq!(archive.read("x").unwrap(), "first");
    assert!(archive.wrong_checksums().is_empty());
}

#[test]
fn bombs_are_refused_before_they_inflate() {
    let bytes = archive(&[("a/b.py", &[0; 4096])]);
    let told = |size: u32| {
        let mut bytes = bytes.to_vec();
        let at = directory(&bytes, 0) + 24;
        bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        Archive::open(bytes.into()).unwrap().read("b.py").unwrap_err()
    };
    assert_eq!(told(512 << 20).code, "N0213");
    for size in [100, 5000] {
        let error = told(size);
        assert!(error.message.contains("member `b.py`"), "{error}");
        assert_eq!(error.code, "N0201");
    }
}

#[test]
fn too_many_members_are_refused_before_the_directory_is_read() {
    let mut bytes = archive(&[("a/x", b"")]).to_vec();
    let end = bytes.len() - 22;
    bytes.truncate(end);
    let record = bytes.len() as u64;
    bytes.extend([b"PK\x06\x06", &44u64.to_le_bytes()[..], &[0; 12], &[0; 8]].concat());
    bytes.extend(1_000_000u64.to_le_bytes().repeat(2));
    bytes.extend([&b"PK\x06\x07"[..], &[0; 4], &record.to_le_bytes(), &[1, 0, 0, 0]].concat());
    bytes.extend([&b"PK\x05\x06"[..], &[0; 4], &[0xff; 12], &[0; 2]].concat());
    let error = Archive::open(bytes.into()).unwrap_err();
    assert_eq!(error.code, "N0213", "{error}");
}

/// A head of a tar archive, with its member.
fn head(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 512];
    head[..name.len()].copy_from_slice(name.as_bytes());
    head[124..136].copy_from_slice(format!("{:011o} ", data.len()).as_bytes());
    head[156] = kind;
    head[257..265].copy_from_slice(b"ustar\x0000");
    sealed(&mut head);
    let mut all = [&head, data].concat();
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

fn sealed(head: &mut [u8]) {
    head[148..156].fill(b' ');
    let sum: u64 = head.iter().map(|b| u64::from(*b)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

#[test]
fn members_of_tar_archives_are_slices() {
    let pax = head("pax", b'x', b"15 path=net/xy\n");
    let parts = [
        head("./net/", b'5', b""),
        head("./net/a", b'0', b"first"),
        head("link", b'2', b""),
        pax,
        head("#", b'0', b"second"),
        head("long", b'L', b"net/long/name\0"),
        head("#", 0, &[b'x'; 600]),
        vec![0; 1024],
    ];
    let bytes = Bytes::from(parts.concat());
    assert_eq!(ArchiveKind::of(&bytes), Some(ArchiveKind::Tar));
    let tar = Archive::open_any(bytes.clone()).unwrap();
    assert!(tar.names().eq(["a", "long/name", "xy"]));
    assert_eq!(
        (tar.read("a").unwrap(), tar.read("xy").unwrap()),
        ("first".into(), "second".into())
    );
    assert!(bytes.as_ptr_range().contains(&tar.read("long/name").unwrap().as_ptr()));
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let gzip = Bytes::from(gzip.finish().unwrap());
    assert_eq!(Archive::open_any(gzip.clone()).unwrap().read("a").unwrap(), "first");
    assert_eq!(Archive::open_any(gzip.slice(..99)).unwrap_err().code, "N0201");
}

#[test]
fn hostile_tar_archives_are_refused() {
    let refused = |parts: &[Vec<u8>]| Archive::open_any(parts.concat().into()).unwrap_err();
    for name in ["a/../b", "/etc/passwd", "a\\b"] {
        let why = refused(&[head(name, b'0', b"")]).into_finding().message;
        assert!(why.contains("member of name"), "{name}: {why}");
    }
    let why = refused(&[head("a", b'0', b""), head("./a", b'0', b"")]).into_finding().message;
    assert!(why.contains("two members of one name"));
    let mut long = head("a", b'0', b"");
    for size in [&b"77777777777 "[..], b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"] {
        long[124..136].copy_from_slice(size);
        sealed(&mut long[..512]);
        assert_eq!(refused(&[long.clone()]).code, "N0202");
    }
    let mut wrong = head("a", b'0', b"");
    wrong[0] = b'b';
    assert!(refused(&[head("c", b'0', b""), wrong]).message.contains("checksum"));
    for pax in [&b"99 path=a\n"[..], b"path", b"8 size=x", b"1 path=a\n"] {
        assert_eq!(refused(&[head("pax", b'x', pax)]).code, "N0201");
    }
    assert_eq!(refused(&[head("s", b'S', b"")]).code, "N0214");
}

#[test]
fn bombs_of_gzip_are_refused() {
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    (0..300).for_each(|_| gzip.write_all(&zeros).unwrap());
    let error = Archive::open_any(gzip.finish().unwrap().into()).unwrap_err();
    assert_eq!(error.code, "N0213");
}

/// The tests of this name mutate the seeds of fuzz targets.
mod fuzzing {
    use super::*;
    use crate::testing::mutations::Mutations;
    use std::path::Path;

    #[test]
    fn archives() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mutations =
            Mutations::of_folder(&root.join("fuzz/corpus-seeds/archive"), &[b"PK", b"../"]);
        mutations.run(|bytes| {
            let bytes = Bytes::copy_from_slice(bytes);
            let of = |archive: Result<Archive, Diagnostic>| {
                let Ok(archive) = archive else { return 0 };
                archive.names().filter(|name| archive.read(name).is_ok()).count()
            };
            of(Archive::open(bytes.clone())) + of(Archive::open_any(bytes))
        });
    }
}

#[test]
fn damaged_files_never_panic() {
    let zip = archive(&[("net/x", b"elements"), ("net/code/a.py", &[b'x'; 99])]);
    let tar = Bytes::from([head("net/a", b'0', b"first"), head("net/b", b'0', b"")].concat());
    for bytes in [zip, tar] {
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= [1, 0x80, 0xff][at % 3];
            for bytes in [bytes.slice(..at), damaged.into()] {
                let Ok(archive) = Archive::open_any(bytes) else { continue };
                archive.names().for_each(|name| drop(archive.read(name)));
            }
        }
    }
}
