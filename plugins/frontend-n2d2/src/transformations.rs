//! The sections that say what happens to pictures before the network sees them.

use crate::diag::Diagnostic;
use crate::ini::{Ini, SectionRef};

/// What a section of a transformation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelScope {
    /// The whole image.
    Whole,
    /// Every channel by itself.
    Channels,
    /// One channel, which is there without the section.
    Channel(usize),
    /// The channel of the input that the section brings.
    Brings(usize),
}

/// A section of a transformation.
pub(crate) struct Transformation<'i> {
    pub(crate) section: SectionRef<'i>,
    /// Nothing if what stands there is no channel.
    pub(crate) scope: Result<ChannelScope, Diagnostic>,
}

impl Transformation<'_> {
    /// Whether it brings a channel of the input.
    pub(crate) fn brings_channel(&self) -> bool {
        matches!(self.scope, Ok(ChannelScope::Brings(_)))
    }

    /// The only channel of the input that it is about.
    pub(crate) fn channel(&self) -> Option<usize> {
        match self.scope {
            Ok(ChannelScope::Channel(own) | ChannelScope::Brings(own)) => Some(own),
            _ => None,
        }
    }

    /// Whether it is about channel `channel` of the input.
    pub(crate) fn concerns(&self, channel: usize) -> bool {
        self.channel().is_none_or(|own| own == channel)
    }
}

/// The sections of transformations in N2D2's order. Those that can be cached come first, wherever
/// they stand. A section of a channel brings one unless it says by `Channel` which one is meant.
pub(crate) fn transformations<'i>(
    ini: &'i Ini,
    environment: SectionRef<'i>,
) -> Vec<Transformation<'i>> {
    let mut all_transformations = Vec::new();
    let mut brought = 0;
    for kind in ["Transformation", "OnTheFlyTransformation"] {
        for section in ini.sections() {
            let rest = section.name().strip_prefix(environment.name());
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix('.')) else { continue };
            let scope = if rest.starts_with(kind) {
                Ok(ChannelScope::Whole)
            } else if rest.strip_prefix("Channels").is_some_and(|rest| rest.starts_with(kind)) {
                Ok(ChannelScope::Channels)
            } else if rest.strip_prefix("Channel").is_some_and(|rest| rest.starts_with(kind)) {
                section.get::<usize>("Channel").map(|channel| match channel {
                    Some(channel) => ChannelScope::Channel(channel),
                    None => {
                        brought += 1;
                        ChannelScope::Brings(brought - 1)
                    }
                })
            } else {
                continue;
            };
            all_transformations.push(Transformation { section, scope });
        }
    }
    all_transformations
}
