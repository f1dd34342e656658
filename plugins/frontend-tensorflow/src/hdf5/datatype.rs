//! Types of elements, as far as tensors and words have them. Of others the name is kept, for errors.

use super::source::{Fields, Result, damaged};
use std::fmt;

/// Where bits of a number that is a float end and begin: those of the exponent and of the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) exponent: u8,
    pub(crate) mantissa: u8,
}

/// How a text of a fixed size ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// At the first zero.
    Zero,
    /// Before the last zeros.
    Zeros,
    /// Before the last spaces.
    Spaces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Integer {
        is_signed: bool,
        is_turned: bool,
    },
    Float {
        bits: Bits,
        is_turned: bool,
    },
    Text(Padding),
    Opaque,
    Enumeration,
    /// Texts that lie elsewhere, because they differ in length.
    Words,
    Other(&'static str),
}

/// The type of an element, and its size in bytes. `is_turned` means that the high byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datatype {
    pub(crate) class: Class,
    pub(crate) size: u32,
}

impl Datatype {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Datatype> {
        let class = fields.u8()? & 0xf;
        let flags = fields.number(3)?;
        let size = fields.u32()?;
        let is_turned = flags & 1 != 0;
        let class = match class {
            0 => {
                let (begin, bits) = (fields.u16()?, fields.u16()?);
                match begin == 0 && u64::from(bits) == 8 * u64::from(size) {
                    true => Class::Integer { is_signed: flags & 8 != 0, is_turned },
                    false => Class::Other("integer with unused bits"),
                }
            }
            1 => float(fields, flags, size)?,
            2 => Class::Other("time"),
            3 => match flags & 0xf {
                0 => Class::Text(Padding::Zero),
                1 => Class::Text(Padding::Zeros),
                2 => Class::Text(Padding::Spaces),
                _ => Class::Other("text"),
            },
            4 => Class::Other("bit field"),
            5 => Class::Opaque,
            6 => Class::Other("compound"),
            7 => Class::Other("reference"),
            8 => Class::Enumeration,
            9 if flags & 0xf == 1 => Class::Words,
            9 => Class::Other("list of variable length"),
            10 => Class::Other("array"),
            11 => Class::Other("complex number"),
            class => return Err(damaged(format!("there is no class {class} of types"))),
        };
        Ok(Datatype { class, size })
    }
}

/// A float, if its bits lie as IEEE 754 has them.
fn float(mut fields: Fields<'_>, flags: u64, size: u32) -> Result<Class> {
    let (begin, all) = (fields.u16()?, fields.u16()?);
    let (exponent_at, exponent) = (fields.u8()?, fields.u8()?);
    let (mantissa_at, mantissa) = (fields.u8()?, fields.u8()?);
    let bias = fields.u32()?;
    let sign_at = (flags >> 8) as u8;
    let is_packed = begin == 0
        && u64::from(all) == 8 * u64::from(size)
        && (mantissa_at, exponent_at) == (0, mantissa)
        && sign_at.checked_sub(exponent) == Some(mantissa)
        && u32::from(all) == u32::from(sign_at) + 1
        && 1u32.checked_shl(u32::from(exponent).saturating_sub(1)) == bias.checked_add(1);
    // The order of VAX has bit 6, and normal numbers have the highest bit of the mantissa left out.
    Ok(match (is_packed && flags >> 4 & 3 == 2, flags & 0x41) {
        (true, 0) => Class::Float { bits: Bits { exponent, mantissa }, is_turned: false },
        (true, 1) => Class::Float { bits: Bits { exponent, mantissa }, is_turned: true },
        _ => Class::Other("float of another form than IEEE 754"),
    })
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.class {
            Class::Integer { is_signed: true, .. } => "integer",
            Class::Integer { is_signed: false, .. } => "unsigned integer",
            Class::Float { .. } => "float",
            Class::Text(_) => "text",
            Class::Opaque => "opaque",
            Class::Enumeration => "enumeration",
            Class::Words => return f.write_str("text of variable length"),
            Class::Other(name) => name,
        };
        let plural = if self.size == 1 { "" } else { "s" };
        write!(f, "{name} of {} byte{plural}", self.size)
    }
}
