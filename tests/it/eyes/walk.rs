//! Each view is opened once in each size, and looked at with all eyes: its picture, axe-core, and
//! what a person sees and reaches.

use tests::{Browser, Theme, Viewport};

use super::views::{View, views};
use super::world::World;
use super::{axe, pictures, sight};

/// Which views a walk visits. Large pictures take longest, so two tests share these views.
#[derive(Clone, Copy)]
enum Share {
    All,
    Even,
    Odd,
}

impl Share {
    fn has(self, place: usize) -> bool {
        match self {
            Share::All => true,
            Share::Even => place.is_multiple_of(2),
            Share::Odd => !place.is_multiple_of(2),
        }
    }
}

#[tokio::test]
async fn every_even_view_on_a_desktop() {
    walk(Viewport::Desktop, [Theme::Dark, Theme::Light], Share::Even).await;
}

#[tokio::test]
async fn every_odd_view_on_a_desktop() {
    walk(Viewport::Desktop, [Theme::Dark, Theme::Light], Share::Odd).await;
}

#[tokio::test]
async fn every_view_on_a_phone() {
    walk(Viewport::Phone, [Theme::Light, Theme::Dark], Share::All).await;
}

/// Opens each view of a share. What is seen and reached is tested in the last theme.
async fn walk(viewport: Viewport, themes: [Theme; 2], share: Share) {
    let world = World::build();
    let browser = Browser::open(viewport, themes[0]).await;
    browser.set_viewport_plain(viewport).await;
    browser.add_to_pages(axe::AXE).await;
    let last = format!("{} {}", viewport.name(), themes[1].name());
    let (mut names, mut unlike, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for (place, view) in views(&world).into_iter().enumerate() {
        let looks = themes.map(|theme| (theme, look(&view, viewport, theme)));
        names.extend(looks.iter().map(|(_, name)| name.clone()));
        if !share.has(place) {
            continue;
        }
        // The test with the Tab key ends outside of the page.
        browser.focus().await;
        // A part that moves while the page loads keeps the fraction of a pixel at which its text
        // was drawn first. A change of theme draws all of it again, so each picture follows one.
        browser.set_still_theme(themes[1]).await;
        view.visit(&browser).await;
        for (theme, name) in looks {
            browser.set_still_theme(theme).await;
            view.settle(&browser).await;
            let picture = pictures::picture_at_rest(&browser).await;
            unlike.extend(pictures::judge(&name, &picture));
            if !pictures::is_approving() {
                faults.extend(barriers(&browser, &name).await);
            }
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

/// The name of a picture.
fn look(view: &View, viewport: Viewport, theme: Theme) -> String {
    format!("{}-{}-{}", view.name, viewport.name(), theme.name())
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
