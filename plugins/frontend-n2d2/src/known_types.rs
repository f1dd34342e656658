//! The types of databases and transformations that N2D2 has. They have no effect on the network, so one that it does
//! not have is a warning.

use crate::ini::{Ini, SectionRef};
use crate::transformations::transformations;

/// Databases (N2D2's `include/Database` and the generators of its `include/Generator`).
const DATABASES: &str = "
    AER_Database Actitracker_Database CIFAR10_Database CIFAR100_Database CKP_Database CSV_Database
    Caltech101_DIR_Database Caltech256_DIR_Database CaltechPedestrian_Database CelebA_Database Cityscapes_Database
    CompositeDatabase DIR_Database DOTA_Database Daimler_Database FDDB_Database Fashion_MNIST_IDX_Database
    GTSDB_DIR_Database GTSRB_DIR_Database IDX_Database ILSVRC2012_Database IMDBWIKI_Database KITTI_Database
    KITTI_Object_Database KITTI_Road_Database LITISRouen_Database MNIST_IDX_Database N_MNIST_Database
    Relational_Database Tensor_Database";

/// Transformations, without `Transformation` (N2D2's `include/Transformation`).
const TRANSFORMATIONS: &str = "
    Affine Apodization CentroidCrop ChannelExtraction ColorSpace Composite CompressionNoise Custom DCT DFT Distortion
    Equalize ExpandLabel Filter Flip GradientFilter LabelExtraction LabelFilter LabelSliceExtraction MagnitudePhase
    MorphologicalReconstruction Morphology Normalize PadCrop RandomAffine RandomResizeCrop RangeAffine RangeClipping
    Rescale Reshape SliceExtraction StripeRemove Threshold Trim WallisFilter";

fn names(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

/// Warns of types that N2D2 does not have.
pub(crate) fn warn_unknown(ini: &Ini, environment: SectionRef) {
    if let Some(database) = ini.section("database") {
        warn(database, "database", |name| names(DATABASES, name));
    }
    for found in transformations(ini, environment) {
        let bare = |name: &str| name.strip_suffix("Transformation").unwrap_or(name).to_owned();
        warn(found.section, "transformation", |name| names(TRANSFORMATIONS, &bare(name)));
    }
}

fn warn(section: SectionRef, what: &str, known: impl Fn(&str) -> bool) {
    // A section without a type is a matter of what reads it.
    let Ok(Some(kind)) = section.get::<String>("Type") else { return };
    if !known(&kind) {
        let text = format!("names no {what} of N2D2");
        section.warn_ignored("Type", &text, "Correct the name: N2D2 refuses the network.");
    }
}
