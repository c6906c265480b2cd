//! The approved pictures of the views: `./check pictures` compares with them, and
//! `./check pictures --approve` saves the present ones as approved.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs};

use tests::{Band, Browser, Picture, TOLERANCE_PPM, Viewport, screenshots_dir, workspace_root};

/// Replaces every text that depends on the time or on chance: ages, dates, ports, ids.
const TIMELESS: &str = r#"
    const rules = [
        [/\b20[23]\d-\d\d-\d\d \d\d:\d\d/g, '2026-01-31 12:00'],
        [/\b20[23]\d-\d\d-\d\d/g, '2026-01-31'],
        [/^(just now|\d+ (min|h|d) ago)$/, '5 min ago'],
        [/127\.0\.0\.1:\d+/g, '127.0.0.1:7878'],
        [/\b(run|shr|ben|row)_[0-9a-zA-Z]{8,}/g, '$1_0000'],
        [/\/s\/[0-9a-zA-Z_-]{8,}/g, '/s/0000'],
        [/\bRun [0-9a-zA-Z]{6}\b/g, 'Run 000000'],
        [/\b(function|file|directory|scope|metadata|context|setting|value)-[a-z0-9]{8}\b/g,
            '$1-standsin'],
    ];
    const still = text => rules.reduce((text, [from, to]) => text.replace(from, to), text);
    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = nodes.nextNode());) {
        const now = still(node.data);
        if (now !== node.data) node.data = now;
    }
    // What is read out must still have in it what stands there.
    for (const named of document.querySelectorAll('[aria-label]')) {
        const label = named.getAttribute('aria-label'), now = still(label);
        if (now !== label) named.setAttribute('aria-label', now);
    }
    for (const field of document.querySelectorAll('textarea, input[readonly]')) {
        const now = still(field.value);
        if (now !== field.value) field.value = now;
    }
    scrollTo(0, 0);
    return null;"#;

/// A page that has looked the same for this long is at rest. Some parts beside the picture change a
/// moment after it.
const CALM: Duration = Duration::from_millis(300);
/// Most places of a difference that a message names.
const BANDS: usize = 6;
/// Most pictures that are taken while the page is not at rest.
const TRIES: usize = 80;

fn approved_dir() -> PathBuf {
    workspace_root().join("tests/pictures")
}

/// Whether pictures are only taken, not compared.
pub fn is_approving() -> bool {
    env::var_os("APPROVE").is_some_and(|value| value == "1")
}

/// Equal pictures are equal files, so only the last one is decoded.
pub async fn picture_at_rest(browser: &Browser) -> Picture {
    let mut last: Option<(Vec<u8>, Instant)> = None;
    for _ in 0..TRIES {
        browser.eval(TIMELESS).await;
        let now = browser.full_page().await;
        match &last {
            Some((before, since)) if *before == now && since.elapsed() >= CALM => break,
            Some((before, _)) if *before == now => {}
            _ => last = Some((now, Instant::now())),
        }
    }
    let (picture, _) = last.expect("at least one was taken");
    Picture::from_png(&picture)
}

/// What is wrong with a view's picture; `None` if it looks like the approved one.
pub fn judge(name: &str, now: &Picture) -> Option<String> {
    let file = format!("{name}.png");
    let approved = approved_dir().join(&file);
    let was = Picture::load(&approved);
    let found = was.as_ref().map(|was| was.difference(now));
    if found.as_ref().is_some_and(|found| found.is_tolerated()) {
        return None;
    }
    if is_approving() {
        now.save(&approved);
        return None;
    }
    let actual = screenshots_dir().join(format!("{name}.actual.png"));
    now.save(&actual);
    let Some(found) = found else {
        return Some(format!(
            "{name}: not approved yet; see {}",
            actual.display()
        ));
    };
    let marked = screenshots_dir().join(format!("{name}.diff.png"));
    found.marked.save(&marked);
    let places: Vec<String> = found
        .bands
        .iter()
        .take(BANDS)
        .map(Band::to_string)
        .collect();
    Some(format!(
        "{name}: {} pixels differ, {:.0} of a million ({TOLERANCE_PPM} are tolerated), {}: {} {}",
        found.pixels,
        found.ppm,
        places.join("; "),
        actual.display(),
        marked.display()
    ))
}

/// Approved pictures, in a size, of views that no longer exist; none while only some views are
/// tested.
fn orphans(viewport: Viewport, names: &[String]) -> Vec<PathBuf> {
    if env::var_os("VIEWS").is_some() {
        return Vec::new();
    }
    let files = fs::read_dir(approved_dir()).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "png"))
        .filter(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            is_of(viewport, &stem) && !names.iter().any(|name| *name == *stem)
        })
        .collect()
}

/// Whether a picture of this name is one in this size. One that is in no size is counted among the
/// larger ones.
fn is_of(viewport: Viewport, name: &str) -> bool {
    let is_small = name.contains(&format!("-{}-", Viewport::Phone.name()));
    is_small == (viewport == Viewport::Phone)
}

/// Removes the pictures of views that no longer exist, or says which there are.
pub fn judge_orphans(viewport: Viewport, names: &[String]) -> Vec<String> {
    let orphans = orphans(viewport, names);
    if is_approving() {
        for orphan in orphans {
            fs::remove_file(orphan).expect("the picture goes");
        }
        return Vec::new();
    }
    let told = orphans.iter();
    told.map(|path| format!("{}: there is no such view", path.display()))
        .collect()
}

/// What to do about pictures that are not as approved.
pub async fn advice(browser: &Browser) -> String {
    format!(
        "Approve what is meant with `./check pictures --approve`. Where nothing was changed, this \
         Chromium draws otherwise than the one that the pictures were approved with:\n  \
         here: {}\n  approved with: {}",
        browser.version().await,
        fs::read_to_string(approved_dir().join("made-with.txt")).unwrap_or_default(),
    )
}

/// Notes which browser drew the pictures that are approved now.
pub async fn note_browser(browser: &Browser) {
    let made_with = format!("{}\n", browser.version().await);
    fs::write(approved_dir().join("made-with.txt"), made_with).expect("the version is noted");
}
