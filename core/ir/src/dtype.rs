//! Element types, with the numbers of `TensorProto.DataType`.

macro_rules! data_types {
    ($($name:ident = $number:literal, $word:literal, $bits:literal;)*) => {
        /// Element type of a tensor. The discriminant is the number in `TensorProto.DataType`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum DataType { $(#[doc = $word] $name = $number,)* }

        impl DataType {
            /// All element types of the standard.
            pub const ALL: &'static [DataType] = &[$(DataType::$name,)*];

            /// The type with this number in `TensorProto.DataType`.
            pub fn from_number(number: i32) -> Option<DataType> {
                match number { $($number => Some(DataType::$name),)* _ => None }
            }

            /// The type's word in ONNX text (`float`, `int64`).
            pub fn word(self) -> &'static str { match self { $(DataType::$name => $word,)* } }

            /// Bits per element; 0 for strings.
            pub fn bits(self) -> usize { match self { $(DataType::$name => $bits,)* } }
        }
    };
}

data_types! {
    Float = 1, "float", 32;
    Uint8 = 2, "uint8", 8;
    Int8 = 3, "int8", 8;
    Uint16 = 4, "uint16", 16;
    Int16 = 5, "int16", 16;
    Int32 = 6, "int32", 32;
    Int64 = 7, "int64", 64;
    String = 8, "string", 0;
    Bool = 9, "bool", 8;
    Float16 = 10, "float16", 16;
    Double = 11, "double", 64;
    Uint32 = 12, "uint32", 32;
    Uint64 = 13, "uint64", 64;
    Complex64 = 14, "complex64", 64;
    Complex128 = 15, "complex128", 128;
    Bfloat16 = 16, "bfloat16", 16;
    Float8E4M3FN = 17, "float8e4m3fn", 8;
    Float8E4M3FNUZ = 18, "float8e4m3fnuz", 8;
    Float8E5M2 = 19, "float8e5m2", 8;
    Float8E5M2FNUZ = 20, "float8e5m2fnuz", 8;
    Uint4 = 21, "uint4", 4;
    Int4 = 22, "int4", 4;
    Float4E2M1 = 23, "float4e2m1", 4;
    Float8E8M0 = 24, "float8e8m0", 8;
    Uint2 = 25, "uint2", 2;
    Int2 = 26, "int2", 2;
}

impl DataType {
    /// The number in `TensorProto.DataType`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The type with this word in ONNX text.
    pub fn parse(word: &str) -> Option<DataType> {
        DataType::ALL.iter().copied().find(|t| t.word() == word)
    }

    /// Bytes that `elements` elements take; elements of less than a byte are packed, the last byte padded.
    /// `None` on overflow and for strings.
    pub fn byte_len(self, elements: usize) -> Option<usize> {
        match self.bits() {
            0 => None,
            bits => elements.checked_mul(bits).map(|total| total.div_ceil(8)),
        }
    }

    /// Whether the type is a real floating-point type that arithmetic is defined on.
    pub fn is_float(self) -> bool {
        matches!(self, DataType::Float | DataType::Double | DataType::Float16 | DataType::Bfloat16)
    }

    /// Whether the type is an integer of at least 8 bits (bool excluded).
    pub fn is_integer(self) -> bool {
        use DataType::*;
        matches!(self, Uint8 | Int8 | Uint16 | Int16 | Int32 | Int64 | Uint32 | Uint64)
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
