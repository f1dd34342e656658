//! SavedModels with their checkpoints, in archives.

use super::{DAMAGED, FINE, LIMIT, SHORT, assert_harmless};
use crate::hostile::{Member, member, zipped};
use std::io::Write;

/// A field of a protobuf message.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(n: u64) -> Vec<u8> {
    let mut bytes = vec![];
    prost::encoding::encode_varint(n, &mut bytes);
    bytes
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The entry of floats in a checkpoint.
#[derive(Clone, Copy)]
struct CheckpointEntry {
    shard: u64,
    offset: u64,
    size: u64,
    sizes: &'static [u64],
    sum: u32,
}

const WEIGHT: [u8; 8] = [0; 8];

fn entry() -> CheckpointEntry {
    CheckpointEntry { shard: 0, offset: 0, size: 8, sizes: &[2], sum: masked_crc(&WEIGHT) }
}

impl CheckpointEntry {
    fn bytes(self) -> Vec<u8> {
        let dims: Vec<u8> = self.sizes.iter().flat_map(|n| field(2, &number(1, *n))).collect();
        let place = [number(3, self.shard), number(4, self.offset), number(5, self.size)].concat();
        let sum = [varint(6 << 3 | 5), self.sum.to_le_bytes().to_vec()].concat();
        [number(1, 1), field(2, &dims), place, sum].concat()
    }
}

/// A block of a table: entries whose keys share nothing.
fn block(file: &mut Vec<u8>, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let start = file.len();
    for (key, value) in entries {
        file.extend([varint(0), varint(key.len() as u64), varint(value.len() as u64)].concat());
        file.extend([key.as_slice(), value].concat());
    }
    file.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let size = file.len() - start;
    file.push(0);
    let sum = masked_crc(&file[start..]);
    file.extend(sum.to_le_bytes());
    [varint(start as u64), varint(size as u64)].concat()
}

/// An index with these entries; `places` makes the places of its blocks of that of the one it has.
fn index(
    entries: &[(Vec<u8>, Vec<u8>)],
    shards: u64,
    places: impl Fn(Vec<u8>) -> Vec<Vec<u8>>,
) -> Vec<u8> {
    let mut all = vec![(vec![], number(1, shards))];
    all.extend_from_slice(entries);
    all.sort();
    let mut file = vec![];
    let data = block(&mut file, &all);
    let places = places(data).into_iter().enumerate().map(|(i, place)| (vec![i as u8], place));
    let meta = block(&mut file, &[]);
    let blocks = block(&mut file, &places.collect::<Vec<_>>());
    let mut footer = [meta, blocks].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend(0xdb47_7524_8b80_fb57u64.to_le_bytes());
    file
}

/// A SavedModel as text whose output is the variable `w`, which is called `a` in the checkpoint.
fn network() -> Member {
    let ty = "attr { key: \"dtype\" value { type: DT_FLOAT } }";
    let shape = "attr { key: \"shape\" value { shape { dim { size: 2 } } } }";
    let read = "node { name: \"y\" op: \"ReadVariableOp\" input: \"a\"";
    let info = "tensor_shape { dim { size: 2 } } dtype: DT_FLOAT";
    let text = format!(
        "saved_model_schema_version: 1 meta_graphs {{ meta_info_def {{ tags: \"serve\" }} graph_def {{ \
         node {{ name: \"a\" op: \"VarHandleOp\" {ty} {shape} }} {read} {ty} }} }} \
         signature_def {{ key: \"serving_default\" value {{ \
         outputs {{ key: \"y\" value {{ name: \"y:0\" {info} }} }} }} }} }}"
    );
    member("saved_model.pbtxt", text)
}

fn saved(index: Vec<u8>, shards: &[(&str, &[u8])]) -> Vec<u8> {
    let mut members = vec![network(), member("variables/variables.index", index)];
    members.extend(shards.iter().map(|(name, bytes)| member(&format!("variables/{name}"), *bytes)));
    zipped(&members, 0)
}

const SHARD: &str = "variables.data-00000-of-00001";

#[test]
fn checkpoints() {
    let of = |entries: &[(&str, CheckpointEntry)]| {
        let entries = entries.iter().map(|(key, entry)| (key.as_bytes().to_vec(), entry.bytes()));
        saved(index(&entries.collect::<Vec<_>>(), 1, |place| vec![place]), &[(SHARD, &WEIGHT)])
    };
    let one = |change: fn(&mut CheckpointEntry)| {
        let mut entry = entry();
        change(&mut entry);
        of(&[("a", entry)])
    };
    let blocks = |places: fn(Vec<u8>) -> Vec<Vec<u8>>| {
        saved(index(&[(b"a".to_vec(), entry().bytes())], 1, places), &[(SHARD, &WEIGHT)])
    };
    // The variable is said to have one part many times.
    let of_parts = |count: usize, sizes: &'static [u64]| {
        let start = field(1, &[number(1, 0), number(2, 2)].concat());
        let parts = (0..count).flat_map(|_| field(7, &start)).collect();
        let variable = [CheckpointEntry { sizes, size: 0, ..entry() }.bytes(), parts].concat();
        let part = "\0a\0\u{1}\u{1}\u{1}\u{80}\u{82}";
        let key: Vec<u8> = part.chars().map(|c| c as u8).collect();
        let all = [(b"a".to_vec(), variable), (key, entry().bytes())];
        saved(index(&all, 1, |p| vec![p]), &[(SHARD, &WEIGHT)])
    };
    let shards =
        |count: u64| saved(index(&[(b"a".to_vec(), entry().bytes())], count, |p| vec![p]), &[]);
    assert_harmless(
        "zip",
        vec![
            ("sound", one(|_| ()), FINE),
            (
                "overlapping",
                of(&[("a", entry()), ("b", CheckpointEntry { offset: 4, size: 4, ..entry() })]),
                DAMAGED,
            ),
            ("outside", one(|e| e.offset = 4), SHORT),
            ("outside by far", one(|e| e.offset = i64::MAX as u64), SHORT),
            ("negative", one(|e| e.offset = u64::MAX), DAMAGED),
            ("sizes that overflow", one(|e| e.sizes = &[1 << 62, 1 << 62]), DAMAGED),
            ("large sizes", one(|e| (e.sizes, e.size) = (&[1 << 40], 4 << 40)), SHORT),
            ("no such file", one(|e| e.shard = 7), DAMAGED),
            ("another checksum", one(|e| e.sum ^= 1), DAMAGED),
            ("files without end", shards(1 << 31), DAMAGED),
            ("many files", shards(90_000), &["N0103"]),
            ("overlapping blocks", blocks(|place| vec![place.clone(), place]), DAMAGED),
            (
                "blocks outside",
                blocks(|_| vec![[varint(1 << 40), varint(1 << 60)].concat()]),
                DAMAGED,
            ),
            ("a part twice", of_parts(2, &[4]), DAMAGED),
            ("many parts", of_parts(100_000, &[200_000]), LIMIT),
        ],
    );
}

#[test]
fn archives() {
    let text = |bytes: Vec<u8>| zipped(&[("saved_model.pbtxt".into(), bytes, true)], 0);
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    (0..300).for_each(|_| gzip.write_all(&zeros).unwrap());
    let gzip = gzip.finish().unwrap();
    let sound = || vec![network(), member("variables/variables.index", "")];
    let other_sum = {
        let mut file = zipped(&[network()], 0);
        file[100] ^= 1;
        file
    };
    let many = (0..65_000).map(|i| member(&format!("extra/{i}"), ""));
    assert_harmless(
        "zip",
        vec![
            ("bomb", text(vec![b' '; 300 << 20]), LIMIT),
            ("spaces", text(vec![b' '; 10 << 20]), DAMAGED),
            ("overlapping members", zipped(&sound(), 8), DAMAGED),
            ("path traversal", zipped(&[network(), member("../../x", "x")], 0), DAMAGED),
            ("two of one name", zipped(&[network(), network()], 0), DAMAGED),
            ("another checksum", other_sum, DAMAGED),
            (
                "many members",
                zipped(&sound().into_iter().chain(many).collect::<Vec<_>>(), 0),
                DAMAGED,
            ),
            ("truncated", zipped(&sound(), 0)[..100].to_vec(), SHORT),
        ],
    );
    assert_harmless("tar.gz", vec![("bomb", gzip, LIMIT)]);
}
