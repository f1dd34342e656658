//! Rust types that stand for ONNX element types.

use crate::DataType;
use half::{bf16, f16};

/// A Rust type whose memory is that of an ONNX element type. `bool` tensors are read as `u8` with
/// [`Element::fits`] accepting both.
pub trait Element: bytemuck::Pod + Default + Send + Sync + 'static {
    /// The ONNX type a `Vec` of this type becomes.
    const DTYPE: DataType;

    /// Whether a tensor of type `dtype` can be read as this type.
    fn fits(dtype: DataType) -> bool {
        dtype == Self::DTYPE
    }
}

macro_rules! elements {
    ($($rust:ty => $name:ident),*) => {
        $(impl Element for $rust { const DTYPE: DataType = DataType::$name; })*
    };
}

elements!(f32 => Float, f64 => Double, f16 => Float16, bf16 => Bfloat16, i8 => Int8, i16 => Int16,
    u16 => Uint16, i32 => Int32, u32 => Uint32, i64 => Int64, u64 => Uint64);

impl Element for u8 {
    const DTYPE: DataType = DataType::Uint8;

    fn fits(dtype: DataType) -> bool {
        matches!(dtype, DataType::Uint8 | DataType::Bool)
    }
}
