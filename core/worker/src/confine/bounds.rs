//! What is kept of a worker's messages: whoever broke out of its host's functions sends what it likes, and jobs,
//! reports and the log hold it.

use onnxd_plugin_host::context::{ABOUT_BYTES_MAX, cut};
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{Diagnostic, ProbeAnswer, StageStarted, WorkerEvent};

/// Names of a stage, a plugin and a component.
const NAME_BYTES_MAX: usize = 256;
/// A text of a front-end.
const TEXT_BYTES_MAX: usize = 2_000;
/// The system opens no longer path.
const PATH_BYTES_MAX: usize = 4_096;
/// Answers of front-ends, and of each the findings and facts.
const ANSWERS_MAX: usize = 1_000;
const FINDINGS_MAX: usize = 100;
const FACTS_MAX: usize = 100;

/// Cuts a message.
pub(super) fn bound(event: &mut WorkerEvent) {
    match &mut event.what {
        Some(Event::Progress(progress)) => shorten(&mut progress.about, ABOUT_BYTES_MAX),
        Some(Event::Stage(StageStarted { stage, plugin, component })) => {
            [stage, plugin, component].into_iter().for_each(|name| shorten(name, NAME_BYTES_MAX));
        }
        Some(Event::Answers(result)) => {
            result.answers.truncate(ANSWERS_MAX);
            result.answers.iter_mut().for_each(answer);
        }
        _ => {}
    }
}

/// A job holds what a front-end says of its network.
fn answer(ProbeAnswer { frontend, plugin, probe, failed, .. }: &mut ProbeAnswer) {
    let text = |text: &mut String| shorten(text, TEXT_BYTES_MAX);
    [frontend, plugin].into_iter().for_each(|name| shorten(name, NAME_BYTES_MAX));
    failed.truncate(FINDINGS_MAX);
    for Diagnostic { code, class, message, layer, layer_kind, place, help, severity } in failed {
        let all = [code, class, message, layer, layer_kind, place, help, severity];
        all.into_iter().for_each(text);
    }
    let Some(probe) = probe else { return };
    text(&mut probe.reason);
    probe.facts.truncate(FACTS_MAX);
    probe.facts.iter_mut().for_each(text);
    for need in &mut probe.needs {
        text(&mut need.what);
        // No file has such a name: it stays missing.
        shorten(&mut need.path, PATH_BYTES_MAX);
        need.found_as.retain(|path| path.len() <= PATH_BYTES_MAX);
    }
}

fn shorten(text: &mut String, bytes_max: usize) {
    let end = cut(text, bytes_max).len();
    if end < text.len() {
        text.truncate(end);
        // What was cut off is not to be held either.
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{Need, Probe, ProbeAnswers, Progress};
    use prost::Message;

    fn long() -> String {
        "\u{20ac}".repeat(1 << 18)
    }

    fn bounded(what: Event) -> Event {
        let mut event = WorkerEvent { what: Some(what) };
        bound(&mut event);
        event.what.unwrap()
    }

    #[test]
    fn names_and_texts_of_progress_are_cut() {
        let progress = Progress { about: long(), ..Progress::default() };
        let Event::Progress(progress) = bounded(Event::Progress(progress)) else { panic!() };
        assert_eq!(progress.about, "\u{20ac}".repeat(ABOUT_BYTES_MAX / 3));
        let stage = StageStarted { stage: long(), plugin: long(), component: long() };
        let Event::Stage(stage) = bounded(Event::Stage(stage)) else { panic!() };
        let short = "\u{20ac}".repeat(NAME_BYTES_MAX / 3);
        assert_eq!([stage.stage, stage.plugin, stage.component], [short.as_str(); 3]);
    }

    #[test]
    fn a_job_can_hold_any_answer() {
        let found = Diagnostic { message: long(), place: long(), ..Diagnostic::default() };
        let need = |path: &str| Need { what: long(), path: path.into(), ..Need::default() };
        let probe = Probe {
            reason: long(),
            facts: vec![long(); 3],
            needs: vec![need("weights.bin"), need(&long())],
            ..Probe::default()
        };
        let (failed, probe) = (vec![found; 200], Some(probe));
        let answer = ProbeAnswer { frontend: long(), failed, probe, ..ProbeAnswer::default() };
        let answers = vec![answer];
        let Event::Answers(result) =
            bounded(Event::Answers(ProbeAnswers { candidate: 0, answers }))
        else {
            panic!()
        };
        assert!(result.encoded_len() < 1 << 20, "{} bytes", result.encoded_len());
        let probe = result.answers[0].probe.clone().unwrap();
        let paths: Vec<usize> = probe.needs.iter().map(|need| need.path.len()).collect();
        assert_eq!(paths, ["weights.bin".len(), PATH_BYTES_MAX / 3 * 3]);
        assert_eq!(probe.reason, "\u{20ac}".repeat(TEXT_BYTES_MAX / 3));
    }
}
