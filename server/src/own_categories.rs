//! The team's own categories: which rules hold, and what they take of a recording.

use crate::app::App;
use crate::problems::Error;
use crate::system::clock::now_ms;
use api::categories::{Kept, OwnCategories, Taken, TakenOfDevice};
use std::path::{Path, PathBuf};
use timeline::format::plural;
use trace::categories::own;
use trace::naming::{Named, Rules};
use trace::trace::{Series, Trace};
use trace::watch::{Stopped, Watch};

/// A file of rules that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the categories in {}: {why}", .path.display())]
pub struct BadFile {
    path: PathBuf,
    why: String,
}

/// Reads a file of rules.
///
/// # Errors
/// When it cannot be read; the first line that is no rule.
pub fn read(path: &Path) -> Result<(String, Rules), BadFile> {
    let bad = |why: String| BadFile {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let rules = Rules::parse(&text).map_err(|error| bad(error.to_string()))?;
    Ok((text, rules))
}

/// The rules of a dashboard, as they were typed.
///
/// # Errors
/// The database's.
pub async fn of(app: &App) -> Result<OwnCategories, Error> {
    let (rules, kept) = match &app.config.categories {
        Some((text, _)) => (text.clone(), Kept::File),
        None => {
            let read = app.store.read(|reader| reader.own_categories());
            (read.await?, Kept::Here)
        }
    };
    let names = Rules::parse(&rules).unwrap_or_default().names();
    Ok(OwnCategories {
        rules,
        kept,
        names: names.into_iter().map(Named::Own).collect(),
    })
}

/// Replaces the rules of a dashboard.
///
/// # Errors
/// When a line is no rule, and when the rules are in a file; the database's.
pub async fn change(app: &App, text: String, who: String) -> Result<(), Error> {
    if app.config.categories.is_some() {
        return Err(Error::BadRequest(
            "these categories come from the file that the server was started with: change that \
             file, and start the server again"
                .to_owned(),
        ));
    }
    let rules = parse(&text)?;
    let write = move |writer: &mut crate::store::Writer<'_>| {
        writer.set_own_categories(&text, &who, now_ms())
    };
    let _renaming = app.pictures.traces.renaming.lock().await;
    app.store.write(write).await?;
    app.pictures.traces.call_blocks(rules);
    Ok(())
}

/// Reads rules that somebody typed.
///
/// # Errors
/// The first line that is no rule.
pub fn parse(text: &str) -> Result<Rules, Error> {
    Rules::parse(text).map_err(|error| Error::BadRequest(error.to_string()))
}

/// What to say of rules that take nothing of a trace, where a `*` before the path of a file would
/// make them take something: a name alone is never a whole path.
pub fn hints(text: &str, taken: &[TakenOfDevice], trace: &Trace) -> Vec<String> {
    let rules = taken.first().map_or(&[][..], |device| &device.rules);
    let lines = rules.iter().map(|rule| rule.line);
    let takes_nothing = |line: &u32| {
        let mut of_line = taken.iter().flat_map(|device| &device.rules);
        of_line.all(|rule| rule.line != *line || rule.blocks == 0)
    };
    let hint = |line: u32| {
        let rule = text.lines().nth(line.checked_sub(1)? as usize)?;
        let wider = rule.replace("file=", "file=*").replace("file=**", "file=*");
        let rules = Rules::parse(&wider).ok()?;
        let devices = Watch::undisturbed(|watch| self::taken(&rules, trace, watch));
        let blocks = devices.iter().flat_map(|device| &device.rules);
        let blocks = match blocks.map(|rule| rule.blocks).sum() {
            0 => return None,
            n => plural(n, "block"),
        };
        let (_, pattern) = wider.split_once("file=")?;
        let pattern = pattern.split_whitespace().next()?.trim_matches('"');
        Some(format!(
            "line {line}: `file=` must match the whole path; `file={pattern}` would take {blocks}"
        ))
    };
    lines.filter(takes_nothing).filter_map(hint).collect()
}

/// What rules take of each device of a trace.
///
/// # Errors
/// [`Stopped`].
pub fn taken(
    rules: &Rules,
    trace: &Trace,
    watch: Watch<'_>,
) -> Result<Vec<TakenOfDevice>, Stopped> {
    let devices = trace.devices.iter().map(|device| {
        let peak = device.summary[Series::Allocated as usize];
        let taken = own::preview(rules, device, &trace.stacks, peak.peak_event, watch)?;
        let taken = taken.into_iter().map(|taken| Taken {
            line: taken.line,
            name: Named::Own(taken.name),
            blocks: taken.blocks,
            bytes: taken.alive.bytes,
        });
        Ok(TakenOfDevice {
            device: device.device,
            peak: peak.peak_event,
            allocated: peak.peak,
            rules: taken.collect(),
        })
    });
    devices.collect()
}
