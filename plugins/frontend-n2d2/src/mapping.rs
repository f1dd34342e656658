//! Connection maps: which input channels an output of a convolution or pooling reads.
//!
//! N2D2 describes them by groups, a matrix or a walking window per parent; ONNX only knows groups,
//! so what matters is the pattern that results.

use crate::diag::{Code, Diagnostic, refuse};
use crate::ini::SectionRef;

/// Most connections a map may have, connected or not.
const CONNECTIONS_MAX: usize = 1 << 28;
/// Most connections a walking window may touch.
const WALK_MAX: usize = 1 << 28;

/// One input of a layer, in the order of `Input`.
#[derive(Clone, Copy)]
pub(crate) struct Parent<'a> {
    /// Name of its section; `env` for the environment, whatever its section is called.
    pub(crate) name: &'a str,
    pub(crate) channels: usize,
}

/// Whether output `o` reads channel `c`, as a matrix of bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Map {
    outputs: usize,
    channels: usize,
    words_per_row: usize,
    words: Vec<u64>,
}

/// The pattern of a map, as far as ONNX has a word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Every output reads every channel.
    Dense,
    /// So many equal blocks along the diagonal, more than one.
    Groups(usize),
    /// Anything else.
    Partial,
}

impl Map {
    /// Every output reads every channel.
    #[cfg(test)]
    pub(crate) fn dense(outputs: usize, channels: usize) -> Option<Map> {
        let mut map = Map::empty(outputs, channels)?;
        map.connect(0..outputs, 0..channels);
        Some(map)
    }

    /// No output reads any channel; nothing if the map would be too large.
    fn empty(outputs: usize, channels: usize) -> Option<Map> {
        let words_per_row = channels.div_ceil(64);
        let words = outputs.checked_mul(words_per_row)?;
        if outputs.checked_mul(channels)? > CONNECTIONS_MAX || words > CONNECTIONS_MAX / 64 {
            return None;
        }
        Some(Map { outputs, channels, words_per_row, words: vec![0; words] })
    }

    /// The map of a section with `outputs` outputs, over the channels of all parents.
    pub(crate) fn of_section(
        section: SectionRef,
        parents: &[Parent],
        outputs: usize,
    ) -> Result<Map, Diagnostic> {
        let channels = parents.iter().try_fold(0_usize, |sum, p| sum.checked_add(p.channels));
        let map = channels.and_then(|channels| Map::empty(outputs, channels));
        let Some(mut map) = map else {
            let message =
                format!("a map of {outputs} outputs has more than {CONNECTIONS_MAX} entries");
            return Err(Diagnostic::new(Code::SourceLimit, message).at(section.layer()));
        };
        let mut first = 0;
        for parent in parents {
            parent_map(section, *parent, outputs, &mut |output, channel| {
                map.set(output, first + channel);
            })?;
            first += parent.channels;
        }
        Ok(map)
    }

    fn set(&mut self, output: usize, channel: usize) {
        self.words[output * self.words_per_row + channel / 64] |= 1 << (channel % 64);
    }

    #[cfg(test)]
    fn connect(&mut self, outputs: std::ops::Range<usize>, channels: std::ops::Range<usize>) {
        for output in outputs {
            channels.clone().for_each(|channel| self.set(output, channel));
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    pub(crate) fn connected(&self, output: usize, channel: usize) -> bool {
        self.words[output * self.words_per_row + channel / 64] >> (channel % 64) & 1 == 1
    }

    /// The channels an output reads, ascending.
    pub(crate) fn channels_of(&self, output: usize) -> impl Iterator<Item = usize> {
        (0..self.channels).filter(move |channel| self.connected(output, *channel))
    }

    /// Number of channels an output reads.
    pub(crate) fn fan_in(&self, output: usize) -> usize {
        let row = &self.words[output * self.words_per_row..][..self.words_per_row];
        row.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether output `i` reads channel `i` and no other: what a pooling needs.
    pub(crate) fn is_identity(&self) -> bool {
        self.outputs == self.channels && self.is_blocks(self.channels)
    }

    pub(crate) fn pattern(&self) -> Pattern {
        let block = if self.outputs == 0 { 0 } else { self.fan_in(0) };
        match self.channels.checked_div(block) {
            Some(1) if self.is_blocks(1) => Pattern::Dense,
            Some(groups) if self.is_blocks(groups) => Pattern::Groups(groups),
            _ => Pattern::Partial,
        }
    }

    /// Number of groups of the ONNX operator; a partial map becomes dense with zeros.
    pub(crate) fn groups(&self) -> usize {
        match self.pattern() {
            Pattern::Groups(groups) => groups,
            Pattern::Dense | Pattern::Partial => 1,
        }
    }

    /// Whether the map is exactly `groups` equal blocks along the diagonal.
    fn is_blocks(&self, groups: usize) -> bool {
        let divides = |n: usize| groups != 0 && n != 0 && n.is_multiple_of(groups);
        if !divides(self.outputs) || !divides(self.channels) {
            return false;
        }
        let (outputs, channels) = (self.outputs / groups, self.channels / groups);
        (0..self.outputs).all(|output| {
            let first = output / outputs * channels;
            self.fan_in(output) == channels
                && (first..first + channels).all(|channel| self.connected(output, channel))
        })
    }
}

/// Reports the connections to one parent: the first rule that applies decides.
fn parent_map(
    section: SectionRef,
    parent: Parent,
    outputs: usize,
    connect: &mut dyn FnMut(usize, usize),
) -> Result<(), Diagnostic> {
    let names: &[&str] = match parent.name {
        "env" | "sp" | "cenv" => &["env", "sp", "cenv"],
        _ => &[parent.name],
    };
    if let Some(groups) = group_count(section, parent)? {
        grouped(groups, parent.channels, outputs, connect);
        return Ok(());
    }
    for name in names {
        let key = format!("Mapping({name})");
        if let Some(matrix) = section.get::<Vec<bool>>(&key)? {
            return explicit(section, &key, &matrix, parent.channels, outputs, connect);
        }
    }
    let keys = Keys { section, names };
    if keys.any() {
        return walk(&MappingWindow::read(&keys)?, section, parent.channels, outputs, connect);
    }
    for output in 0..outputs {
        (0..parent.channels).for_each(|channel| connect(output, channel));
    }
    Ok(())
}

fn group_count(section: SectionRef, parent: Parent) -> Result<Option<usize>, Diagnostic> {
    const GROUPS: &str = "Mapping.NbGroups";
    const PER_GROUP: &str = "Mapping.ChannelsPerGroup";
    let groups = section.get::<usize>(GROUPS)?;
    let per_group = section.get::<usize>(PER_GROUP)?;
    let (key, value) = match (groups, per_group) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let problem = section.problem(GROUPS, format!("and `{PER_GROUP}` exclude each other"));
            return Err(problem.help("Keep one of the two."));
        }
        (Some(value), None) => (GROUPS, value),
        (None, Some(value)) => (PER_GROUP, value),
    };
    let Parent { name, channels } = parent;
    refuse!(value == 0 || !channels.is_multiple_of(value) =>
        section.problem(key, format!("is {value}, which does not divide the {channels} channels of `{name}`")));
    Ok(Some(if key == GROUPS { value } else { channels / value }))
}

/// Group `k` takes an equal share of the channels and of the outputs that remain.
fn grouped(groups: usize, channels: usize, outputs: usize, connect: &mut dyn FnMut(usize, usize)) {
    let per_group = channels / groups;
    let mut output = 0;
    for group in 0..groups {
        let share = (outputs - output) / (groups - group);
        for output in output..output + share {
            let first = group * per_group;
            (first..first + per_group).for_each(|channel| connect(output, channel));
        }
        output += share;
    }
}

/// One row per channel, one column per output.
fn explicit(
    section: SectionRef,
    key: &str,
    matrix: &[bool],
    channels: usize,
    outputs: usize,
    connect: &mut dyn FnMut(usize, usize),
) -> Result<(), Diagnostic> {
    if matrix.len() != channels * outputs {
        let message = format!(
            "must have {channels} rows (channels) of {outputs} columns (outputs), \
             {} entries; found {}",
            channels * outputs,
            matrix.len()
        );
        return Err(section.problem(key, message));
    }
    for (channel, row) in matrix.chunks_exact(outputs.max(1)).enumerate() {
        for (output, _) in row.iter().enumerate().filter(|(_, set)| **set) {
            connect(output, channel);
        }
    }
    Ok(())
}

/// `Mapping.KEY`, and `Mapping(parent).KEY` which goes before it.
struct Keys<'a> {
    section: SectionRef<'a>,
    names: &'a [&'a str],
}

const WALK_KEYS: [&str; 10] = [
    "Size", "SizeX", "SizeY", "Stride", "StrideX", "StrideY", "Offset", "OffsetX", "OffsetY",
    "NbIterations",
];

impl Keys<'_> {
    fn candidates(&self, key: &str) -> impl Iterator<Item = String> {
        let own = self.names.iter().map(move |name| format!("Mapping({name}).{key}"));
        own.chain([format!("Mapping.{key}")])
    }

    fn any(&self) -> bool {
        WALK_KEYS.iter().any(|key| self.candidates(key).any(|key| self.section.has(&key)))
    }

    fn get(&self, key: &str) -> Result<Option<usize>, Diagnostic> {
        let found = self.candidates(key).find(|key| self.section.has(key));
        found.map_or(Ok(None), |key| self.section.get(&key))
    }

    /// X and Y of a setting that may be given for both at once.
    fn pair(&self, key: &str, default: usize) -> Result<[usize; 2], Diagnostic> {
        let both = self.get(key)?.unwrap_or(default);
        let one = |axis| Ok(self.get(&format!("{key}{axis}"))?.unwrap_or(both));
        Ok([one('X')?, one('Y')?])
    }
}

/// A window that walks over outputs (X) and channels (Y) at once.
struct MappingWindow {
    size: [usize; 2],
    stride: [usize; 2],
    offset: [usize; 2],
    iterations: usize,
}

impl MappingWindow {
    fn read(keys: &Keys) -> Result<MappingWindow, Diagnostic> {
        Ok(MappingWindow {
            size: keys.pair("Size", 1)?,
            stride: keys.pair("Stride", 1)?,
            offset: keys.pair("Offset", 0)?,
            iterations: keys.get("NbIterations")?.unwrap_or(0),
        })
    }
}

fn walk(
    walk: &MappingWindow,
    section: SectionRef,
    channels: usize,
    outputs: usize,
    connect: &mut dyn FnMut(usize, usize),
) -> Result<(), Diagnostic> {
    let extent = [outputs, channels];
    if extent.contains(&0) {
        return Ok(());
    }
    // Beyond the full extent a window only touches again what it has touched.
    let size = [0, 1].map(|axis| match walk.size[axis] {
        0 => extent[axis],
        size => size.min(extent[axis]),
    });
    let iterations = if walk.iterations == 0 { outputs.max(channels) } else { walk.iterations };
    let touched = iterations.checked_mul(size[0] * size[1]).filter(|n| *n <= WALK_MAX);
    if touched.is_none() {
        let message = format!("the mapping sets more than {WALK_MAX} connections");
        return Err(Diagnostic::new(Code::SourceLimit, message).at(section.layer()));
    }
    let mut at = [0, 1].map(|axis| walk.offset[axis] % extent[axis]);
    for _ in 0..iterations {
        for i in 0..size[0] {
            for j in 0..size[1] {
                connect((at[0] + i) % outputs, (at[1] + j) % channels);
            }
        }
        at = [0, 1].map(|axis| (at[axis] + walk.stride[axis] % extent[axis]) % extent[axis]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ini::Ini;
    use crate::ini::testing::Texts;

    fn map(properties: &str, parents: &[(&str, usize)], outputs: usize) -> Result<Map, Diagnostic> {
        let ini =
            Ini::parse("n.ini", &Texts(vec![("n.ini", format!("[c]\n{properties}"))])).unwrap();
        let parents: Vec<Parent> =
            parents.iter().map(|(name, channels)| Parent { name, channels: *channels }).collect();
        Map::of_section(ini.section("c").unwrap(), &parents, outputs)
    }

    /// One row per output.
    fn rows(map: &Map) -> Vec<String> {
        let row = |o| (0..map.channels()).map(move |c| if map.connected(o, c) { '1' } else { '0' });
        (0..map.outputs()).map(|o| row(o).collect()).collect()
    }

    #[test]
    fn tables() {
        use Pattern::{Dense, Groups, Partial};
        type MappingPattern<'a> = (&'a str, &'a [(&'a str, usize)], &'a [&'a str], Pattern);
        let cases: &[MappingPattern] = &[
            ("", &[("p", 3)], &["111", "111"], Dense),
            ("Mapping.NbGroups=2", &[("p", 4)], &["1100", "0011"], Groups(2)),
            ("Mapping.NbGroups=2", &[("p", 4)], &["1100", "1100", "0011", "0011"], Groups(2)),
            ("Mapping.NbGroups=2", &[("p", 2)], &["10", "01", "01"], Partial),
            ("Mapping.NbGroups=1", &[("p", 2)], &["11", "11"], Dense),
            ("Mapping.ChannelsPerGroup=1", &[("p", 2)], &["10", "01"], Groups(2)),
            ("Mapping.ChannelsPerGroup=2", &[("p", 4)], &["1100", "0011"], Groups(2)),
            ("Mapping(p)=1 0 1 \\\n0 1 1", &[("p", 2)], &["10", "01", "11"], Partial),
            ("Mapping(env)=1 0", &[("sp", 1)], &["1", "0"], Partial),
            ("Mapping(sp)=0 1", &[("env", 1)], &["0", "1"], Partial),
            ("Mapping(q)=0 0", &[("p", 1)], &["1", "1"], Dense),
            ("Mapping.Size=1", &[("p", 3)], &["100", "010", "001"], Groups(3)),
            ("Mapping.Size=1", &[("p", 2)], &["10", "01", "10"], Partial),
            ("Mapping.Size=2", &[("p", 3)], &["111", "111", "111"], Dense),
            (
                "Mapping.Size=2\nMapping.Stride=2",
                &[("p", 4)],
                &["1100", "1100", "0011", "0011"],
                Groups(2),
            ),
            ("Mapping.SizeX=0", &[("p", 2)], &["11", "11"], Dense),
            ("Mapping.SizeY=0\nMapping.NbIterations=1", &[("p", 2)], &["11", "00"], Partial),
            ("Mapping.SizeX=2\nMapping.NbIterations=1", &[("p", 2)], &["10", "10"], Partial),
            ("Mapping.OffsetX=1", &[("p", 2)], &["01", "10"], Partial),
            ("Mapping.Offset=1\nMapping.NbIterations=1", &[("p", 2)], &["00", "01"], Partial),
            ("Mapping.Stride=5", &[("p", 3)], &["100", "010", "001"], Groups(3)),
            (
                "Mapping.Size=1\nMapping.NbIterations=2\nMapping(q).OffsetX=2",
                &[("p", 2), ("q", 2)],
                &["1000", "0100", "0010", "0001"],
                Groups(4),
            ),
            ("Mapping(q)=1 0", &[("p", 1), ("q", 1)], &["11", "10"], Partial),
        ];
        for (properties, parents, expected, pattern) in cases {
            let map = map(properties, parents, expected.len()).unwrap();
            assert_eq!(rows(&map), *expected, "{properties}");
            assert_eq!(map.pattern(), *pattern, "{properties}");
            let ones = expected.concat().matches('1').count();
            assert_eq!(map.connections(), ones, "{properties}");
        }
    }

    #[test]
    fn identity_is_square_and_diagonal() {
        let identity = |properties, channels, outputs| {
            map(properties, &[("p", channels)], outputs).unwrap().is_identity()
        };
        assert!(identity("Mapping.Size=1", 70, 70));
        assert!(identity("", 1, 1));
        assert!(!identity("Mapping.Size=1", 2, 4));
        assert!(!identity("", 2, 2));
        assert!(!identity("Mapping.OffsetX=1", 3, 3));
    }

    #[test]
    fn queries() {
        let map = map("Mapping.NbGroups=2", &[("p", 4)], 4).unwrap();
        assert_eq!(map.channels_of(3).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((map.fan_in(0), map.groups()), (2, 2));
        assert!(map == map.clone() && Map::dense(4, 4).unwrap() != map);
    }

    #[test]
    fn refusals() {
        for (properties, reason) in [
            ("Mapping.NbGroups=2\nMapping.ChannelsPerGroup=2", "exclude each other"),
            ("Mapping.NbGroups=3", "does not divide the 4 channels of `p`"),
            ("Mapping.ChannelsPerGroup=0", "does not divide"),
            ("Mapping(p)=1 0 1", "8 entries; found 3"),
            ("Mapping(p)=1 2 1 1 1 1 1 1", "each 0 or 1"),
            ("Mapping.Size=-1", "non-negative"),
            ("Mapping.NbIterations=99999999999", "more than"),
        ] {
            let problem = map(properties, &[("p", 4)], 2).err().unwrap();
            assert!(problem.to_string().contains(reason), "{properties}: {problem}");
            assert_eq!(problem.into_finding().layer.unwrap().name, "c");
        }
        let large = map("", &[("p", 1 << 20)], 1 << 20).err().unwrap();
        assert_eq!(large.code, "N0213");
        assert!(map("", &[("p", usize::MAX), ("q", 1)], 1).is_err());
    }
}
