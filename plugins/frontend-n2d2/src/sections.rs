//! Which sections are the environment, layers and targets.

use crate::ini::{Ini, SectionRef};

/// Names under which layers refer to the environment; the first section that exists is it.
pub(crate) const ENVIRONMENTS: [&str; 3] = ["cenv", "env", "sp"];

/// What stands behind the name of a layer in that of its target.
pub(crate) const TARGET: &str = ".Target";

/// The section of the environment.
pub(crate) fn environment(ini: &Ini) -> Option<SectionRef<'_>> {
    ENVIRONMENTS.iter().find_map(|name| ini.section(name))
}

/// All sections that are layers.
pub(crate) fn cell_sections(ini: &Ini) -> impl Iterator<Item = SectionRef<'_>> {
    ini.sections().filter(|section| section.has("Input") && !is_environment(section.name()))
}

/// Whether layers mean the environment by a name.
pub(crate) fn is_environment(name: &str) -> bool {
    ENVIRONMENTS.contains(&name)
}
