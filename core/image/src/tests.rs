use crate::{Deep, Image, Refused, decode, decode_deep, is_picture};

const ROOM: usize = 1 << 20;

fn grey(width: usize, height: usize, samples: &[u8]) -> Image {
    Image { width, height, channels: 1, samples: samples.to_vec() }
}

#[test]
fn portable_formats() {
    let read = |bytes: &[u8]| decode(bytes, ROOM).unwrap();
    assert_eq!(read(b"P2 # two numbers\n2 1\n255\n 7 255\n"), grey(2, 1, &[7, 255]));
    assert_eq!(read(b"P2 2 1 15 15 3"), grey(2, 1, &[255, 51]));
    assert_eq!(read(b"P5\n2 1\n255\n\x20\x0a"), grey(2, 1, &[0x20, 0x0a]));
    assert_eq!(read(b"P5 1 1 65535\n\x80\x00"), grey(1, 1, &[128]));
    assert_eq!(read(b"P1 3 1\n101"), grey(3, 1, &[0, 255, 0]));
    assert_eq!(read(b"P4 9 2\n\x80\x80\x01\x00").samples[..3], [0, 255, 255]);
    assert_eq!(
        read(b"P4 9 2\n\x80\x80\x01\x00").samples[8..],
        [0, 255, 255, 255, 255, 255, 255, 255, 0, 255]
    );
    let colour = read(b"P6 1 1 255\n\x01\x02\x03");
    assert_eq!((colour.channels, &colour.samples[..]), (3, &[1u8, 2, 3][..]));
    assert_eq!(read(b"P3 1 1 255 255 0 0").to_grey().samples, [76]);
    assert_eq!(grey(1, 1, &[5]).to_rgb().samples, [5, 5, 5]);
}

fn bmp(bits: u16, height: i32, palette: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut file = b"BM\0\0\0\0\0\0\0\0".to_vec();
    file.extend((54 + palette.len() as u32).to_le_bytes());
    file.extend(40u32.to_le_bytes());
    file.extend(2i32.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend(1u16.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend([0; 16]);
    file.extend((palette.len() as u32 / 4).to_le_bytes());
    file.extend([0; 4]);
    file.extend(palette);
    file.extend(rows);
    file
}

#[test]
fn bmp_of_all_depths() {
    let samples = |file: Vec<u8>| decode(&file, ROOM).unwrap().samples;
    let rows = [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0];
    assert_eq!(samples(bmp(24, 2, &[], &rows)), [9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4]);
    assert_eq!(samples(bmp(24, -2, &[], &rows)), [3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10]);
    let palette = [1, 2, 3, 0, 4, 5, 6, 0];
    assert_eq!(samples(bmp(1, 1, &palette, &[0x40, 0, 0, 0])), [3, 2, 1, 6, 5, 4]);
    assert_eq!(samples(bmp(4, 1, &palette, &[0x10, 0, 0, 0])), [6, 5, 4, 3, 2, 1]);
    assert_eq!(samples(bmp(8, 1, &palette, &[1, 0, 0, 0])), [6, 5, 4, 3, 2, 1]);
    assert_eq!(samples(bmp(16, 1, &[], &[0x00, 0x7c, 0x1f, 0])), [255, 0, 0, 0, 0, 255]);
    let wide = [1, 2, 3, 0, 4, 5, 6, 0];
    assert_eq!(samples(bmp(32, 1, &[], &wide)), [3, 2, 1, 6, 5, 4]);
    let outside = decode(&bmp(8, 1, &palette, &[2, 0, 0, 0]), ROOM);
    assert!(matches!(outside, Err(Refused::Damaged(_))));
}

/// 2 x 1 pixels, red and blue; the JPEG is 8 x 8 pixels of one colour.
const PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 1, 8, 2, 0,
    0, 0, 123, 64, 232, 221, 0, 0, 0, 13, 73, 68, 65, 84, 120, 156, 99, 248, 207, 0, 4, 255, 1, 7,
    0, 1, 255, 226, 35, 158, 89, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];
const JPEG: &[u8] = &[
    255, 216, 255, 219, 0, 67, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 255, 192, 0, 17, 8, 0, 8, 0, 8, 3, 1, 17, 0, 2, 17, 0, 3, 17, 0,
    255, 196, 0, 31, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
    9, 10, 11, 255, 196, 0, 20, 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 218, 0,
    12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0, 54, 101, 77, 179, 255, 217,
];
const WEBP: &[u8] = &[
    82, 73, 70, 70, 28, 0, 0, 0, 87, 69, 66, 80, 86, 80, 56, 76, 15, 0, 0, 0, 47, 1, 0, 0, 0, 40,
    192, 1, 254, 15, 240, 223, 255, 2, 36, 0,
];

#[test]
fn compressed_formats() {
    let png = decode(PNG, ROOM).unwrap();
    assert_eq!((png.width, png.height, &png.samples[..]), (2, 1, &[255u8, 0, 0, 0, 0, 255][..]));
    assert_eq!(decode(WEBP, ROOM).unwrap(), png);
    let jpeg = decode(JPEG, ROOM).unwrap();
    assert_eq!((jpeg.width, jpeg.height, jpeg.channels), (8, 8, 3));
    let near = |p: &[u8]| p[0].abs_diff(200) < 4 && p[1].abs_diff(100) < 4 && p[2].abs_diff(50) < 4;
    assert!(jpeg.samples.chunks(3).all(near), "{:?}", &jpeg.samples[..3]);
}

/// 2 x 1 grey pixels of 16 bits: 0x0102 and 0xfffe.
const DEEP_PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 1, 16, 0, 0,
    0, 0, 129, 217, 252, 21, 0, 0, 0, 13, 73, 68, 65, 84, 120, 156, 99, 96, 100, 250, 255, 15, 0,
    3, 11, 2, 1, 132, 145, 232, 19, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

#[test]
fn samples_of_16_bits_are_kept_on_demand() {
    let words = |samples: &[u16]| {
        let samples = samples.to_vec();
        Deep::Words(Image { width: samples.len(), height: 1, channels: 1, samples })
    };
    let read = |bytes: &[u8]| decode_deep(bytes, ROOM).unwrap();
    assert_eq!(read(DEEP_PNG), words(&[0x0102, 0xfffe]));
    assert_eq!(decode(DEEP_PNG, ROOM).unwrap(), grey(2, 1, &[1, 255]));
    assert_eq!(read(b"P5 2 1 65535\n\x01\x02\xff\xfe"), words(&[0x0102, 0xfffe]));
    assert_eq!(read(b"P2 2 1 4095 7 4095"), words(&[7, 4095]));
    assert_eq!(read(b"P2 2 1 15 7 15"), Deep::Bytes(grey(2, 1, &[7, 15])));
    assert_eq!(read(b"P1 3 1 101"), Deep::Bytes(grey(3, 1, &[0, 255, 0])));
    assert_eq!(read(PNG), Deep::Bytes(decode(PNG, ROOM).unwrap()));
    assert!(matches!(decode_deep(DEEP_PNG, 1), Err(Refused::TooLarge(_))));
    assert!(decode_deep(b"P2 1 1 4095 4096", ROOM).is_err());
}

#[test]
fn pictures_are_told_by_their_first_bytes() {
    for file in [PNG, JPEG, WEBP, b"P5\n1 1", b"P6#", &bmp(24, 1, &[], &[])] {
        assert!(is_picture(file));
    }
    for file in [&b"PK\x03\x04"[..], b"P7\n", b"P5", b"", b"\x93NUMPY", b"P21"] {
        assert!(!is_picture(file));
    }
}

#[test]
fn a_palette_of_greys_is_grey() {
    let palette = [7, 7, 7, 0, 9, 9, 9, 0];
    let read = decode(&bmp(8, 1, &palette, &[1, 0, 0, 0]), ROOM).unwrap();
    assert_eq!(read, grey(2, 1, &[9, 7]));
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    let is_large = |bytes: &[u8], most| matches!(decode(bytes, most), Err(Refused::TooLarge(_)));
    assert!(is_large(b"P6 60000 60000 255\n", ROOM));
    assert!(is_large(b"P6 999999999 999999999 255\n", usize::MAX));
    assert!(is_large(&bmp(24, i32::MIN, &[], &[]), ROOM));
    for file in [PNG, JPEG, WEBP] {
        assert!(is_large(file, 5));
    }
}

#[test]
fn damage_is_refused_wherever_it_is() {
    let is_damaged = |bytes: &[u8]| matches!(decode(bytes, ROOM), Err(Refused::Damaged(_)));
    assert!(is_damaged(b"P5 2 2 255\n123"));
    assert!(is_damaged(b"P2 2 1 10 11 3"));
    assert!(is_damaged(b"P5 0 2 255\n123"));
    assert!(matches!(decode(b"GIF89a", ROOM), Err(Refused::Unsupported(_))));
    assert!(matches!(decode(b"", ROOM), Err(Refused::Unsupported(_))));
    let portable = b"P3 1 1 255 255 0 0".to_vec();
    for file in [PNG.to_vec(), JPEG.to_vec(), WEBP.to_vec(), portable, bmp(24, 2, &[], &[0; 16])] {
        for at in 0..file.len() {
            drop(decode(&file[..at], ROOM));
            let mut changed = file.clone();
            changed[at] ^= 0x55;
            drop(decode(&changed, ROOM));
        }
    }
}
