//! The daemon is killed at every named place, and at random ones, while a consumer takes results
//! away, users cancel and retry, and drops with the same contents arrive: what is accepted is
//! delivered once.
//!
//! The store outlives the daemon: in memory, or the real one in files. All other files are real. A seed
//! decides everything but how threads take turns. `CRASH_SEED=N` runs that one alone.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::crash::CrashPlan;
use super::crash_store::Dice;
use super::crash_world::{StoreKind, World};

const SEEDS: u64 = 2_000;
/// So many with the store in files.
const SEEDS_IN_FILES: u64 = 200;
/// Kills of one world at random places.
const KILLS: usize = 2;
/// Places that a world passes; a kill falls on one of them.
const PLACES: u64 = 70;

/// Every place of the code at which a kill is simulated. Transitions have one before and one after.
const TRANSITIONS: [&str; 17] = [
    "BroughtDown", "Claimed", "Hashed", "DuplicateOf", "Rejected", "Started", "ReadyToPublish",
    "Copied", "Redirected", "Published", "Failed", "Interrupted", "RoomAgain", "GivenBack",
    "CancelAsked", "RetryAsked", "Released",
];
const EFFECTS: [&str; 15] = [
    "before a new job", "after a new job", "files moved", "files read", "result staged",
    "result renamed", "passage made", "result copied", "passage removed", "copy removed",
    "originals moved", "order carried out", "after jobs are packed", "folder restored",
    "after a restart",
];

fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.unwrap()
}

/// One world with a kill at each plan, and a last life that is not killed.
fn run(
    root: &Path,
    kind: StoreKind,
    seed: u64,
    kills: impl IntoIterator<Item = CrashPlan>,
) -> Vec<Arc<CrashPlan>> {
    let mut world = World::new(root, kind, seed);
    let mut plans = Vec::new();
    for plan in kills {
        let plan = Arc::new(CrashPlan { far: world.far, ..plan });
        let whole = world.live(&plan);
        plans.push(plan);
        if !whole && world.dice.percent(50) {
            world.consume();
        }
        if !whole && world.dice.percent(25) {
            world.blame();
        }
    }
    let done = loop {
        let plan = Arc::new(CrashPlan { far: world.far, ..CrashPlan::default() });
        assert!(world.live(&plan));
        plans.push(plan);
        // A shutdown ends a life early.
        if world.is_done() {
            break world;
        }
    };
    done.check();
    plans
}

/// A world mostly waits for its own threads, so more of them run side by side than there are cores.
const WORLDS: usize = 16;
/// Whose worlds run: those of one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs seeds on several threads; a failure names its seed.
fn each_seed(seeds: std::ops::Range<u64>, one: impl Fn(&Path, u64) + Sync) {
    let only = std::env::var("CRASH_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let (begin, end) = only.map_or((seeds.start, seeds.end), |seed| (seed, seed + 1));
    let next = AtomicU64::new(begin);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let dir = folder();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            if let Err(why) = catch_unwind(AssertUnwindSafe(|| one(&dir.path().join("w"), seed))) {
                eprintln!("CRASH_SEED={seed}");
                resume_unwind(why);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..WORLDS).for_each(|_| drop(scope.spawn(work)));
    });
}

/// Kills at random places.
fn kill_at_random(kind: StoreKind, seeds: u64) {
    // Other seeds in every run, and the same where it is given.
    let base = std::env::var("CRASH_BASE").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    println!("CRASH_BASE={base}");
    each_seed(base..base + seeds, |root, seed| {
        let mut dice = Dice(seed);
        let kill = || CrashPlan {
            after: usize::try_from(dice.below(PLACES)).ok(),
            ..CrashPlan::default()
        };
        run(root, kind, seed, std::iter::repeat_with(kill).take(KILLS).collect::<Vec<_>>());
    });
}

#[test]
fn kills_at_random_places_lose_and_double_nothing() {
    kill_at_random(StoreKind::Memory, SEEDS);
}

#[test]
fn kills_at_random_places_lose_and_double_nothing_of_the_real_store() {
    kill_at_random(StoreKind::Files, SEEDS_IN_FILES);
}

#[test]
fn a_kill_at_each_place_loses_and_doubles_nothing() {
    kill_at_each_place(StoreKind::Memory);
}

#[test]
fn a_kill_at_each_place_loses_and_doubles_nothing_of_the_real_store() {
    kill_at_each_place(StoreKind::Files);
}

/// Kills at every place that has a name.
fn kill_at_each_place(kind: StoreKind) {
    let mut wanted: BTreeSet<String> = EFFECTS.iter().map(|name| (*name).to_owned()).collect();
    for name in TRANSITIONS {
        wanted.extend([format!("before {name}"), format!("after {name}")]);
    }
    let killed = Mutex::new(BTreeSet::<String>::new());
    // A place may be reached only after a kill, such as that of an interrupted attempt.
    each_seed(0..SEEDS, |root, seed| {
        let rare = |name: &String| !killed.lock().unwrap().contains(name);
        if !wanted.iter().any(rare) {
            return;
        }
        let early = || CrashPlan { after: Some(25), ..CrashPlan::default() };
        let seen = run(root, kind, seed, [early()]);
        let names: BTreeSet<String> =
            seen.iter().flat_map(|plan| plan.seen().into_keys()).collect();
        for name in names.into_iter().filter(rare) {
            let at = |n| CrashPlan { at: Some((name.clone(), n)), ..CrashPlan::default() };
            for plans in [vec![at(1), at(1)], vec![early(), at(1), at(2)]] {
                let plans = run(root, kind, seed, plans);
                let here = |plan: &Arc<CrashPlan>| plan.is_dead() && plan.at.is_some();
                if plans.iter().any(here) {
                    killed.lock().unwrap().insert(name.clone());
                }
            }
        }
    });
    let killed = killed.into_inner().unwrap();
    let missing: Vec<&String> = wanted.difference(&killed).collect();
    assert!(missing.is_empty(), "never killed at {missing:?}");
    let unknown: Vec<&String> = killed.difference(&wanted).collect();
    assert!(unknown.is_empty(), "places that are not listed: {unknown:?}");
}
