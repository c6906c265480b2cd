//! Each view is opened once in each size, and looked at with all eyes: its picture, axe-core, and
//! what a person sees and reaches.

use tests::{Browser, Theme, Viewport};

use super::views::views;
use super::world::World;
use super::{axe, pictures, sight};

#[tokio::test]
async fn every_view_on_a_desktop() {
    walk(Viewport::Desktop, [Theme::Dark, Theme::Light]).await;
}

#[tokio::test]
async fn every_view_on_a_phone() {
    walk(Viewport::Phone, [Theme::Light, Theme::Dark]).await;
}

/// Opens every view. What is seen and reached is tested in the last theme.
async fn walk(viewport: Viewport, themes: [Theme; 2]) {
    let world = World::build();
    let browser = Browser::open(viewport, themes[0]).await;
    browser.set_viewport_plain(viewport).await;
    browser.add_to_pages(axe::AXE).await;
    let last = format!("{} {}", viewport.name(), themes[1].name());
    let (mut names, mut unlike, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for view in views(&world) {
        // The test with the Tab key ends outside of the page.
        browser.focus().await;
        browser.set_still_theme(themes[0]).await;
        view.visit(&browser).await;
        for theme in themes {
            browser.set_still_theme(theme).await;
            view.settle(&browser).await;
            let name = format!("{}-{}-{}", view.name, viewport.name(), theme.name());
            let picture = pictures::picture_at_rest(&browser).await;
            unlike.extend(pictures::judge(&name, &picture));
            if !pictures::is_approving() {
                faults.extend(barriers(&browser, &name).await);
            }
            names.push(name);
        }
        // Moves the focus and scrolls, so it comes after everything else.
        if !pictures::is_approving() {
            faults.extend(sight::out_of_sight(&browser, &view, &last).await);
        }
    }
    unlike.extend(pictures::judge_orphans(viewport, &names));
    if pictures::is_approving() {
        pictures::note_browser(&browser).await;
    }
    if !unlike.is_empty() {
        unlike.push(pictures::advice(&browser).await);
    }
    let wrong = [unlike, faults].concat();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// What keeps people from using the page, in its present look.
async fn barriers(browser: &Browser, look: &str) -> Vec<String> {
    let mut found = axe::findings(browser).await;
    if browser.scrolls_sideways().await {
        found.push("scrolls sideways".to_owned());
    }
    let told = found.iter();
    told.map(|line| format!("{look}: {line}")).collect()
}
