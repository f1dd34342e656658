//! The words that params of all conversions take. A word is matched here, and nowhere else.

/// Declares an enum of words. It is read from its spelling, and displays as it.
#[macro_export]
macro_rules! words {
    ($(
        $(#[$about:meta])*
        $vis:vis enum $Name:ident {
            $($(#[$what:meta])* $Word:ident = $spelling:literal,)+
        }
    )+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Name {
            $($(#[$what])* $Word,)+
        }

        impl ::std::fmt::Display for $Name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter) -> ::std::fmt::Result {
                f.write_str(match self { $($Name::$Word => $spelling,)+ })
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $Name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                match <String as $crate::serde::Deserialize>::deserialize(from)?.as_str() {
                    $($spelling => Ok($Name::$Word),)+
                    other => Err($crate::serde::de::Error::unknown_variant(other, &[$($spelling),+])),
                }
            }
        }
    )+ };
}

words! {
    /// Where ranges come from.
    pub enum Mode {
        /// From data.
        Static = "static",
        /// From the input, at run time.
        Dynamic = "dynamic",
        /// From training.
        Qat = "qat",
        /// Nowhere: weights alone are quantized.
        WeightOnly = "weight_only",
    }

    /// How a Linear layer is written.
    pub enum Recipe {
        /// The product and the bias are added in float.
        Fp32Bias = "QDQ_OP_FP32_BIAS",
        /// The bias is added to the MatMulInteger, the sum becomes float.
        Int32Bias = "QDQ_OP_INT32_BIAS",
        /// As the first, and the sum is rounded to 8 bits.
        Fp32BiasQdq = "QDQ_OP_FP32_BIAS_QDQ",
    }

    /// A type of quantized values.
    pub enum IntegerType {
        /// 8 bits without sign.
        Uint8 = "uint8",
        /// 8 bits.
        Int8 = "int8",
        /// 16 bits without sign.
        Uint16 = "uint16",
        /// 16 bits.
        Int16 = "int16",
        /// 4 bits without sign.
        Uint4 = "uint4",
        /// 4 bits.
        Int4 = "int4",
    }

    /// How calibration data help to round weights.
    pub enum Rounding {
        /// They do not.
        Nearest = "nearest",
        /// AdaRound.
        Adaround = "adaround",
        /// GPTQ.
        Gptq = "gptq",
        /// AWQ.
        Awq = "awq",
    }

    /// How much is tried.
    pub enum Accuracy {
        /// What usually suffices.
        Default = "default",
        /// What may help.
        Auto = "auto",
    }

    /// Processors that a quantized model is made for.
    pub enum Processor {
        /// Every one.
        Any = "any",
        /// Those with instructions for sums of 8-bit products: x86-64 with VNNI, ARM.
        Vnni = "vnni",
    }

    /// How ranges follow from calibration data.
    pub enum RangeMethod {
        /// All values.
        MinMax = "minmax",
        /// The least loss of information.
        Entropy = "entropy",
        /// A share of the values.
        Percentile = "percentile",
        /// The least squared error.
        Mse = "mse",
        /// The average range of some samples.
        MovingAverage = "moving_average",
    }

    /// Order of a picture's channels.
    pub enum Color {
        /// Red first.
        Rgb = "rgb",
        /// Blue first.
        Bgr = "bgr",
    }

    /// Axes of an input of pictures.
    pub enum Layout {
        /// Channels first.
        Nchw = "nchw",
        /// Channels last.
        Nhwc = "nhwc",
    }

    /// How much of what passes changed is compared.
    pub enum Compare {
        /// Nothing.
        None = "none",
        /// As much as a bounded time allows.
        Some = "some",
        /// Everything.
        All = "all",
    }

    /// What becomes of values that a network writes and that outlive a call.
    pub enum Mutations {
        /// They are an error.
        Error = "error",
        /// They are inputs and outputs.
        Outputs = "outputs",
    }

    /// What becomes of an operator without counterpart.
    pub enum OperatorFallback {
        /// It is an error.
        Error = "error",
        /// It stays, in a named domain.
        Custom = "custom",
        /// It stays as ATen.
        Aten = "aten",
    }

    /// Whether weights lie beside the model.
    pub enum ExternalData {
        /// Where the model would pass 2 GiB.
        Auto = "auto",
        /// Large tensors.
        Always = "always",
        /// None.
        Never = "never",
    }
}

#[cfg(test)]
mod tests {
    use crate::{Resolved, Section, host};
    use std::sync::Arc;

    fn reads<S: Section>(rows: &str) {
        let lines = |of: &str| -> Vec<String> {
            let start = format!("{of} = '");
            let values =
                rows.lines().filter_map(|line| line.strip_prefix(&start)?.strip_suffix('\''));
            values.map(str::to_owned).collect()
        };
        for (key, kind) in lines("key").iter().zip(lines("type")) {
            let (section, key) = key.split_once('.').unwrap();
            let is_words = kind.contains(" | ") && !kind.contains("..");
            for word in kind.split(" | ").filter(|_| is_words) {
                let read = |word: &str| {
                    let json = format!("{{\"{section}\": {{\"{key}\": \"{word}\"}}}}");
                    S::of(&Arc::new(Resolved::parse(&json).unwrap())).map(|_| ())
                };
                assert_eq!(read(word), Ok(()), "{section}.{key} = {word}");
            }
        }
    }

    #[test]
    fn every_word_of_a_row_is_read() {
        reads::<host::Source>(host::Source::ROWS);
        reads::<host::Export>(host::Export::ROWS);
        reads::<host::Passes>(host::Passes::ROWS);
        reads::<host::Quantization>(host::Quantization::ROWS);
        reads::<host::Calibration>(host::Calibration::ROWS);
        let none = Arc::new(Resolved::parse(r#"{"quantization": {"mode": "statc"}}"#).unwrap());
        let why = host::Quantization::of(&none).err();
        assert!(why.is_some_and(|why| why.contains("unknown variant `statc`")));
    }
}
