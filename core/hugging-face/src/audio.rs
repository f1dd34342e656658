//! Models of sound: families by `model_type`, a file each.

mod speech;
mod wav2vec2;

pub(crate) type Family = crate::vision::Family;

/// Families by `model_type`.
const FAMILIES: &[(&str, Family)] = &[
    ("hubert", wav2vec2::hubert),
    ("unispeech", wav2vec2::unispeech),
    ("unispeech-sat", wav2vec2::unispeech_sat),
    ("wav2vec2", wav2vec2::wav2vec2),
];

pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
}

#[cfg(test)]
mod tests;
