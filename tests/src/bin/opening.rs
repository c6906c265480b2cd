//! Measures how the page without a server opens recordings: `./bench local [FILE…]`. For each file
//! a new browser, the seconds from choosing the file until the timeline is drawn, and the most
//! memory of the tab's process (page and worker together).

use fantoccini::Locator;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tests::process::{self, Memory};
use tests::{Browser, StaticSite, Theme, Viewport, target_dir};

const DRAWN: &str = "return document.querySelector('.timeline')?.ariaBusy === 'false' && \
                     !document.querySelector('.timeline-skeleton.shown');";

const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("usage: ./bench local FILE… (there is no ../shared/big/big.pickle.zst)");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Runtime::new().expect("the runtime starts");
    let site = StaticSite::of(&target_dir().join("page"));
    println!("| file | size, MB | until drawn, s | memory, MB |\n|---|---|---|---|");
    for file in &files {
        let (seconds, memory) = runtime.block_on(opened(&site, file));
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let size = fs::metadata(file).map_or(0, |file| file.len());
        println!(
            "| {name} | {:.0} | {seconds:.1} | {:.0} |",
            size as f64 / 1e6,
            memory as f64 / 1e6
        );
    }
    ExitCode::SUCCESS
}

/// Seconds until it is drawn, and bytes of the tab's process at most.
async fn opened(site: &StaticSite, file: &Path) -> (f64, u64) {
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&site.url("/")).await;
    let field = browser
        .page
        .wait()
        .for_element(Locator::Css("input[type=file]"));
    let field = field.await.expect("the page takes files");
    let path = file.canonicalize().expect("the file is there");
    let began = Instant::now();
    let chosen = field.send_keys(path.to_str().expect("a path in UTF-8"));
    chosen.await.expect("a file is chosen");
    browser.wait_within(PATIENCE, "the timeline", DRAWN).await;
    (began.elapsed().as_secs_f64(), largest_tab())
}

/// The highest memory of a tab of a browser that this process started, bytes.
fn largest_tab() -> u64 {
    let numbers = fs::read_dir("/proc").expect("this is Linux").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let tabs = numbers.filter(|&number| is_tab(number) && is_ours(number));
    let memory = tabs.map(|number| process::memory(number, Memory::Peak));
    memory.max().unwrap_or(0)
}

fn is_tab(number: u32) -> bool {
    let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("--type=renderer")
}

/// Whether this process is among its ancestors.
fn is_ours(number: u32) -> bool {
    let parent = |number: &u32| process::parent(*number);
    std::iter::successors(Some(number), parent).any(|number| number == std::process::id())
}
