use crate::{DataType, Derivation, Tensor};
use half::f16;

/// Nibbles of a held tensor that count up, whose last byte is half full.
fn nibbles(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let nibble = |i: usize| if i < count { (i * 7 % 16) as u8 } else { 0 };
    let bytes: Vec<u8> = (0..count).step_by(2).map(|i| nibble(i) | nibble(i + 1) << 4).collect();
    Tensor::new(DataType::Uint4, dims.to_vec(), bytes.into()).unwrap()
}

#[test]
fn what_is_unpacked_is_packed_again() {
    let x = nibbles(&[3, 5, 7]);
    let wide = x.unpacked(4).unwrap();
    assert!(wide.derivation().is_some() && wide.dtype() == DataType::Uint8);
    assert_eq!(wide.to_i64s(), x.to_i64s());
    assert_eq!(wide.part(3..8)[..], wide.bytes()[3..8]);
    let back = wide.packed_as(DataType::Uint4).unwrap();
    assert!(back.derivation().is_none(), "two tables that undo each other are none");
    assert_eq!((&back, back.bytes().as_ptr()), (&x, x.bytes().as_ptr()));
    let signed = wide.packed_as(DataType::Int4).unwrap();
    assert_eq!(signed.bytes(), x.bytes());
}

/// Nibbles in another order, over several blocks and with an odd count, against the same numbers one by one.
#[test]
fn nibbles_are_turned() {
    for dims in [[3, 5], [301, 7001]] {
        let x = nibbles(&dims);
        let turned = x.unpacked(4).unwrap().permuted(&[1, 0]).unwrap();
        let packed = turned.packed_as(DataType::Int4).unwrap();
        assert_eq!(packed.byte_len(), (dims[0] * dims[1]).div_ceil(2));
        let (all, found) = (x.to_i64s().unwrap(), packed.to_i64s().unwrap());
        for (i, found) in found.iter().enumerate() {
            let code = all[i % dims[0] * dims[1] + i / dims[0]];
            assert_eq!(*found, if code > 7 { code - 16 } else { code }, "{i}");
        }
        let (whole, from) = (packed.bytes(), packed.byte_len() / 3);
        assert_eq!(packed.bytes_at(from..from + 2)[..], whole[from..from + 2]);
        assert_eq!(packed, packed.held());
        assert_ne!(
            packed,
            Tensor::new(DataType::Int4, vec![dims[1], dims[0]], vec![0; whole.len()].into())
                .unwrap()
        );
        assert!(packed.permuted(&[1, 0]).is_err(), "what is packed has no places of whole bytes");
        assert!(packed.is_finite());
    }
}

#[test]
fn tables_have_elements_of_every_size() {
    let codes = Tensor::from_vec(vec![2usize, 3], vec![7u8, 0, 255, 3, 3, 128]);
    let reals: Vec<f32> = (0..256).map(|i| i as f32 * 0.5 - 1.0).collect();
    let table = Tensor::vector(reals.clone());
    let wanted: Vec<f32> = [7usize, 0, 255, 3, 3, 128].map(|i| reals[i]).to_vec();
    let found = codes.looked_up(&table).unwrap();
    assert_eq!(found, Tensor::from_vec(vec![2usize, 3], wanted.clone()));
    assert_eq!(found.permuted(&[1, 0]).unwrap().as_slice::<f32>().unwrap()[1], wanted[3]);
    let halves = Tensor::vector(reals.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>());
    let halves = codes.looked_up(&halves).unwrap().cast(DataType::Float).unwrap();
    assert_eq!(halves, found);
    // A table of a table is one table.
    let twice = nibbles(&[5]).unpacked(4).unwrap().looked_up(&table).unwrap();
    let Some(Derivation::Lookup { sources: [codes, _] }) = twice.derivation() else { panic!() };
    assert_eq!(codes.dtype(), DataType::Uint4);
    let wanted = (0..5).map(|i| reals[i * 7 % 16]).collect::<Vec<_>>();
    assert_eq!(twice, Tensor::vector(wanted));
}

/// Words that are put in another order hold codes of fewer bits.
#[test]
fn words_hold_several_codes() {
    let words: Vec<i32> = (0..6).map(|i| 0x1234_5678i32.wrapping_mul(i + 3)).collect();
    let x = Tensor::from_vec([2, 3], words.clone());
    let turned = x.permuted(&[1, 0]).unwrap();
    for bits in [2, 4, 8] {
        let codes = turned.unpacked(bits).unwrap();
        assert_eq!(codes.dims(), [3, 2 * 32 / bits]);
        let per_word = 32 / bits;
        let code = |i: usize| {
            let (place, word) = (i % per_word, i / per_word);
            words[word % 2 * 3 + word / 2] as u32 >> (place * bits) & ((1 << bits) - 1)
        };
        let wanted: Vec<i64> = (0..codes.len()).map(|i| code(i).into()).collect();
        assert_eq!(codes.to_i64s().unwrap(), wanted);
        // Codes from the middle of a byte and of a word on.
        assert_eq!(codes.part(5..codes.len())[..], codes.bytes()[5..]);
    }
    let packed = turned.unpacked(4).unwrap().packed_as(DataType::Uint4).unwrap();
    assert_eq!((packed.bytes(), packed.dims()), (turned.bytes(), &[3, 16][..]));
    assert_eq!(packed.bytes_at(3..9)[..], packed.bytes()[3..9]);
    // What is packed is unpacked again.
    assert_eq!(packed.unpacked(4).unwrap(), turned.unpacked(4).unwrap());
    let doubled = packed.looked_up(&Tensor::vector((0..16u8).map(|i| 2 * i).collect())).unwrap();
    assert_eq!(doubled.part(0..1)[0], packed.bytes()[0] % 16 * 2);
}

#[test]
fn what_is_no_table_is_refused() {
    let codes = Tensor::vector(vec![1u8, 2]);
    let table = |n: usize| Tensor::vector(vec![0f32; n]);
    let words = Tensor::strings(vec![256], vec!["a".into(); 256]).unwrap();
    let square = table(256).reshaped(vec![16usize, 16]).unwrap();
    for (codes, table) in [
        (&codes, table(255)),
        (&codes, square),
        (&codes, words.clone()),
        (&words, table(256)),
        (&nibbles(&[2]), table(256)),
        (&Tensor::vector(vec![1u16]), table(65536)),
    ] {
        assert!(codes.looked_up(&table).is_err(), "{codes:?} {table:?}");
    }
    let sources = [codes, table(256)];
    let from = Derivation::Lookup { sources };
    assert!(Tensor::derived(DataType::Float, [3], from.clone()).is_err());
    assert!(Tensor::derived(DataType::Uint8, [2], from).is_err());
}
