use super::*;

fn number(mut n: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let lengths = [0, key.len() as u64, value.len() as u64].map(number).concat();
    [&lengths, key, value].concat()
}

/// A block with its trailer; gives its place.
fn block(file: &mut Vec<u8>, entries: &[u8], kind: u8) -> Vec<u8> {
    let start = file.len();
    // One restart, at the begin.
    file.extend([entries, &[0, 0, 0, 0, 1, 0, 0, 0]].concat());
    let size = file.len() - start;
    file.push(kind);
    let crc = masked_crc(&file[start..]);
    file.extend(crc.to_le_bytes());
    [number(start as u64), number(size as u64)].concat()
}

/// A table with one block of entries, compressed as `kind` says.
fn table_of(entries: &[(&[u8], &[u8])], kind: u8) -> Vec<u8> {
    let mut file = vec![];
    let all: Vec<u8> = entries.iter().flat_map(|(key, value)| entry(key, value)).collect();
    let data = block(&mut file, &all, kind);
    let meta = block(&mut file, &[], 0);
    let index = block(&mut file, &entry(b"z", &data), 0);
    ended(file, &meta, &index)
}

fn ended(mut file: Vec<u8>, meta: &[u8], index: &[u8]) -> Vec<u8> {
    let mut footer = [meta, index].concat();
    footer.resize(FOOTER_BYTES - 8, 0);
    file.extend(footer);
    file.extend(MAGIC.to_le_bytes());
    file
}

pub(crate) fn table(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    table_of(entries, 0)
}

#[test]
fn a_table_gives_its_entries() {
    let found = entries(&table(&[(b"", b"head"), (b"a/b", b"1"), (b"a/c", b"")])).unwrap();
    let found: Vec<_> = found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    assert_eq!(found, [(&b""[..], &b"head"[..]), (b"a/b", b"1"), (b"a/c", b"")]);
}

#[test]
fn keys_share_their_beginnings() {
    let mut file = vec![];
    let all = [entry(b"abc", b"1"), [&[2, 1, 1][..], b"x", b"2"].concat()].concat();
    let data = block(&mut file, &all, 0);
    let index = block(&mut file, &entry(b"z", &data), 0);
    let found = entries(&ended(file, &index, &index)).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [&b"abc"[..], b"abx"]);
}

#[test]
fn a_damaged_table_is_refused() {
    let good = table(&[(b"key", b"value")]);
    let said = |file: &[u8]| entries(file).unwrap_err().into_finding().message;
    assert_eq!(said(b"short"), "The checkpoint's index is damaged: it is too short.");
    assert!(said(&[0; 100]).contains("does not end as one"));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        let _ = entries(&bad);
    }
    let mut bad = good.clone();
    bad[3] ^= 1;
    assert!(said(&bad).contains("does not have its checksum"));
    assert_eq!(said(&table_of(&[], 1)), "The checkpoint's index is compressed.");
}

#[test]
fn blocks_do_not_overlap() {
    let mut file = vec![];
    let data = block(&mut file, &entry(b"a", b"1"), 0);
    let twice = [entry(b"a", &data), entry(b"b", &data)].concat();
    let index = block(&mut file, &twice, 0);
    let said = entries(&ended(file, &index, &index)).unwrap_err().into_finding().message;
    assert!(said.contains("overlaps another"), "{said}");
}
