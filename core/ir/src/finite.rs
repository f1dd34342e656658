//! Whether elements are finite numbers. Of derived tensors this is mostly told by what they are derived from, which is
//! read in its own order, once.

use crate::{BlockPart, DataType, Derivation, Tensor};

impl Tensor {
    /// Whether no element is infinite or not a number; `false` for types that are not real.
    pub fn is_finite(&self) -> bool {
        use DataType::{Int2, Int4, Uint2, Uint4};
        match self.dtype() {
            DataType::Float => self.magnitude().is_some() || self.has_exponents::<4>(0x7f80_0000),
            DataType::Double => self.has_exponents::<8>(0x7ff0_0000_0000_0000),
            DataType::Float16 => self.has_exponents::<2>(0x7c00),
            DataType::Bfloat16 => self.has_exponents::<2>(0x7f80),
            DataType::Bool | Int2 | Int4 | Uint2 | Uint4 => true,
            dtype => dtype.is_integer(),
        }
    }

    /// Whether no element of `SIZE` bytes has all bits of its exponent set.
    fn has_exponents<const SIZE: usize>(&self, exponent: u64) -> bool {
        let fine = |block: &[u8]| {
            let elements = block.as_chunks::<SIZE>().0.iter();
            let fine = elements.fold(true, |fine, x| {
                let mut wide = [0; 8];
                wide[..SIZE].copy_from_slice(x);
                fine & (u64::from_le_bytes(wide) & exponent != exponent)
            });
            if fine { Ok(()) } else { Err(()) }
        };
        self.in_blocks(fine).is_ok()
    }

    /// A number that the absolute value of no element of type `float` is above. `None` if it would be infinite, or is
    /// not told without computing the elements.
    fn magnitude(&self) -> Option<f32> {
        let most = match self.derivation() {
            _ if self.dtype() != DataType::Float => return None,
            None => self.greatest()?,
            // Elements that the view leaves out may be larger.
            Some(Derivation::Strided { source, .. }) if source.len() <= self.len() => {
                source.magnitude()?
            }
            Some(Derivation::Concat { parts, .. }) => {
                let parts = parts.iter().map(Tensor::magnitude);
                parts.collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f32::max)
            }
            Some(Derivation::Scaled { sources: [source, gain], .. }) => {
                let gains = gain.as_pods::<f64>();
                let gain = gains.iter().all(|g| g.is_finite()).then_some(gains)?;
                let gain = gain.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
                // Rounding keeps the order of numbers.
                (f64::from(source.magnitude()?) * gain) as f32
            }
            Some(Derivation::Blocks { source, format, part: BlockPart::Values }) => {
                let part = |part| source.from_blocks(*format, part, [self.len() / format.run()]);
                let [scales, minima] = [BlockPart::Scales, BlockPart::Minima].map(part);
                let (least, most) = format.codes();
                let most = f32::from(least).abs().max(f32::from(most));
                scales.ok()?.greatest()? * most + minima.ok()?.greatest()?
            }
            // It may leave out elements, too, or repeat some.
            Some(Derivation::Taken { .. } | Derivation::Strided { .. }) => return None,
            Some(Derivation::Cast { .. } | Derivation::Lookup { .. }) => return None,
            Some(Derivation::Blocks { .. } | Derivation::Dequantized { .. }) => return None,
        };
        most.is_finite().then_some(most)
    }

    /// The greatest absolute value of elements of type `float`, if all are finite.
    fn greatest(&self) -> Option<f32> {
        // Of floats without their sign, larger ones have larger bits; infinities and NaN have the largest.
        let bits = |x: &[u8; 4]| u32::from_le_bytes(*x) & 0x7fff_ffff;
        let mut most = 0;
        let read: Result<(), std::convert::Infallible> = self.in_blocks(|block| {
            most = block.as_chunks().0.iter().fold(most, |most, x| most.max(bits(x)));
            Ok(())
        });
        let Ok(()) = read;
        Some(f32::from_bits(most)).filter(|most| most.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn floats(values: &[f32]) -> Tensor {
        Tensor::vector(values.to_vec())
    }

    #[test]
    fn each_type_of_held_elements() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for (values, finite) in [(vec![1.0, -0.0, 65504.0], true), (vec![1.0, bad], false)] {
                let all = [
                    floats(&values),
                    Tensor::vector(values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()),
                    Tensor::vector(values.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>()),
                    Tensor::vector(values.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>()),
                ];
                for x in all {
                    assert_eq!(x.is_finite(), finite, "{x:?} {values:?}");
                }
            }
        }
        assert!(floats(&[f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45]).is_finite());
        assert!(Tensor::vector(vec![u64::MAX]).is_finite());
        assert!(!Tensor::strings(vec![1], vec!["x".into()]).unwrap().is_finite());
    }

    #[test]
    fn elements_that_a_view_leaves_out_do_not_count() {
        let x = Tensor::from_vec([2, 2], vec![1.0f32, f32::NAN, 2.0, f32::INFINITY]);
        assert!(!x.permuted(&[1, 0]).unwrap().is_finite());
        assert!(x.sliced(&[(0, 2, 1), (0, 1, 1)]).unwrap().is_finite());
        assert!(!x.sliced(&[(0, 2, 1), (1, 1, 1)]).unwrap().is_finite());
    }

    #[test]
    fn the_largest_gain_need_not_meet_the_largest_element() {
        let x = Tensor::from_vec([2, 2], vec![1.0f32, 2.0, 3e38, 1e38]);
        let turned = x.permuted(&[1, 0]).unwrap();
        let scaled = |gain: [f64; 2]| x.scaled(0, &gain).unwrap().is_finite();
        assert!(scaled([1e30, 1.0]) && scaled([-2.0, 0.5]));
        assert!(!scaled([1.0, 2.0]) && !scaled([1.0, f64::NAN]));
        assert!(!turned.scaled(1, &[1.0, -2.0]).unwrap().is_finite());
        // What is rounded down to the largest number is finite.
        let edge = floats(&[f32::MAX]).scaled(0, &[1.0 + 1e-9]).unwrap();
        assert!(edge.is_finite());
        assert!(!floats(&[f32::MAX]).scaled(0, &[1.0 + 1e-7]).unwrap().is_finite());
        let joined = Tensor::concat(&[x.clone(), turned], 0).unwrap();
        assert!(joined.is_finite());
        assert!(!joined.scaled(0, &[1.0, 10.0, 1.0, 1.0]).unwrap().is_finite());
    }

    #[test]
    fn a_cast_may_be_beyond_its_type() {
        let x = Tensor::vector(vec![1e300f64, 1.0]);
        assert!(x.is_finite() && !x.cast(DataType::Float).unwrap().is_finite());
        assert!(x.cast(DataType::Int8).unwrap().is_finite());
    }
}
