//! Questions about one recording.

use crate::message::{JSON, MARKDOWN, Request, Response, TILE, in_path};
use crate::problems::{Refused, bad_request, misasked, missing, no_card, no_device};
use crate::runs::Run;
use answers::cards::markdown::{self, Links, Names};
use answers::cards::{Head, Look, RunCard, Watches};
use answers::decoded::Decoded;
use answers::pictures::{Picture, details};
use answers::questions::asked::{self, Misasked};
use answers::questions::what_if::{Asked, NOT_OF_PINNED, what_if_drawn};
use answers::texts::Texts;
use answers::{explain, questions, redaction};
use api::alive::AllocationFilter;
use api::routes;
use api::runs::RunSource;
use api::view_state::ViewState;
use api::what_if::Conditions;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use timeline::card::Theme;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::redact::Key;
use trace::site::SiteKey;
use trace::tiles::{GroupBy, MAX_LEVEL, TileId};
use trace::trace::{BlockIdx, DeviceTrace};
use trace::units::Bytes;
use trace::units::EventIdx;
use trace::watch::Watch;

/// Makes the stand-ins of a preview. Those of a link are made with a key of its own, by the server.
const EXAMPLE_KEY: &[u8; 16] = b"only an example!";

/// What is taken for steps.
#[derive(Deserialize)]
struct Steps {
    steps: Option<String>,
}

/// The version of the encoding that an address names.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only whether it can be read matters")]
struct Version {
    v: Option<u32>,
}

/// What groups stand for.
#[derive(Deserialize)]
struct Groups {
    by: Option<String>,
}

/// Which moment.
#[derive(Deserialize)]
struct Moment {
    at: Option<u32>,
}

/// Which moment, or the one before the first event.
#[derive(Deserialize)]
struct MomentOrStart {
    at: Option<u32>,
    #[serde(default)]
    start: bool,
}

/// Between which moments.
#[derive(Deserialize)]
struct Between {
    from: u32,
    to: u32,
}

/// Which part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    offset: u64,
    limit: Option<NonZeroUsize>,
}

/// A question about a device.
struct Question<'a> {
    run: &'a Run,
    decoded: Arc<Decoded>,
    number: DeviceIdx,
    /// The loop whose iterations are the steps.
    steps: Option<String>,
    request: &'a Request,
}

/// Answers a question about a device; `rest` is the end of its path.
///
/// # Errors
/// When it has no answer.
pub fn of_device(
    run: &Run,
    number: &str,
    rest: &[&str],
    request: &Request,
) -> Result<Response, Refused> {
    let number = in_path(number, "device").map(DeviceIdx)?;
    let Steps { steps } = request.asked()?;
    let question = Question {
        decoded: run.decoded(steps.as_deref())?,
        number,
        run,
        steps,
        request,
    };
    question.answered(rest)
}

impl Question<'_> {
    fn device(&self) -> Result<&DeviceTrace, Refused> {
        self.decoded.device(self.number).map_err(no_device)
    }

    fn answered(&self, rest: &[&str]) -> Result<Response, Refused> {
        let device = self.device()?;
        let decoded = &self.decoded;
        match rest {
            ["series", level, index] => self.drawn(Picture::Series(tile(level, index)?)),
            ["mountain", group, level, index] => {
                let group = GroupBy::from_str(group).map_err(|e| bad_request(e.to_string()))?;
                self.drawn(Picture::Mountain(group, tile(level, index)?))
            }
            ["marks"] => self.drawn(Picture::Marks),
            ["contents"] => {
                self.of_version()?;
                // Its loops are those from which steps are chosen.
                let whole = self.run.decoded(None)?;
                let device = whole.device(self.number).map_err(no_device)?;
                let draw = |watch| Picture::Contents.draw(&whole, device, watch);
                Ok(Response::bytes(JSON, Watch::undisturbed(draw)))
            }
            ["blocks", block] => self.block(block),
            ["blocks", block, "beside"] => {
                let block = in_path(block, "block")?;
                let found = questions::beside(decoded, device, BlockIdx(block));
                told(&found.ok_or_else(|| self.no_block(block))?)
            }
            ["events", event] => {
                let event = in_path(event, "event")?;
                let found = details::moment(device, EventIdx(event));
                let no_event = Misasked::NoEvent {
                    event,
                    device: self.number,
                };
                told(&found.ok_or_else(|| misasked(no_event))?)
            }
            ["leaks"] => {
                self.of_version()?;
                self.leaks(told)
            }
            ["growth"] => self.growth(),
            ["alive"] => {
                let by = self.by(Dimension::Stack)?;
                let MomentOrStart { at, start } = self.request.asked()?;
                let at = match start {
                    true => None,
                    false => self.moment(at)?,
                };
                told(&Watch::undisturbed(|watch| {
                    questions::alive(decoded, device, at, by, watch)
                }))
            }
            ["changes"] => self.changes(),
            ["memory-map"] => {
                let Moment { at } = self.request.asked()?;
                told(&questions::memory_map(device, self.moment(at)?))
            }
            ["room-over-time"] => told(&questions::room_over_time(device)),
            ["allocations"] => {
                let filter: AllocationFilter = self.request.asked()?;
                let Page { offset, limit } = self.request.asked()?;
                let limit = limit.map_or(asked::PAGE, NonZeroUsize::get);
                let page = questions::page(decoded, device, &filter, offset, limit);
                told(&page.map_err(|error| bad_request(error.to_string()))?)
            }
            ["what-if"] => self.what_if(),
            _ => Err(crate::problems::no_route(self.request.place())),
        }
    }

    /// Whether the address names a version, if it names something as one. Which it is does not
    /// matter here: nothing of another version is kept.
    fn of_version(&self) -> Result<(), Refused> {
        self.request.asked::<Version>().map(drop)
    }

    fn drawn(&self, picture: Picture) -> Result<Response, Refused> {
        self.of_version()?;
        let kind = match picture {
            Picture::Marks | Picture::Contents => JSON,
            Picture::Series(_) | Picture::Mountain(..) => TILE,
        };
        let device = self.device()?;
        let draw = |watch| picture.draw(&self.decoded, device, watch);
        Ok(Response::bytes(kind, Watch::undisturbed(draw)))
    }

    fn block(&self, block: &str) -> Result<Response, Refused> {
        let block = in_path(block, "block")?;
        let found = details::block(&self.decoded, self.device()?, BlockIdx(block));
        told(&found.ok_or_else(|| self.no_block(block))?)
    }

    fn no_block(&self, block: u32) -> Refused {
        misasked(Misasked::NoBlock {
            block,
            device: self.number,
        })
    }

    fn leaks<T>(
        &self,
        with: impl FnOnce(&api::leaks::Leaks) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match self.steps {
            None => with(self.run.leaks(self.number)?),
            Some(_) => {
                let trace = &self.decoded.trace;
                with(&questions::report(trace, self.device()?, Watch::nobody()))
            }
        }
    }

    fn growth(&self) -> Result<Response, Refused> {
        let by = self.by(Dimension::Site)?;
        let sites = self.leaks(|leaks| {
            let sites = leaks
                .groups
                .iter()
                .filter_map(|group| group.site.parse().ok());
            Ok(sites.collect::<Vec<SiteKey>>())
        })?;
        let device = self.device()?;
        told(&Watch::undisturbed(|watch| {
            questions::growth(&self.decoded, device, by, &sites, watch)
        }))
    }

    fn changes(&self) -> Result<Response, Refused> {
        let by = self.by(Dimension::Stack)?;
        let Between { from, to } = self.request.asked()?;
        let device = self.device()?;
        let events = asked::between(device, from, to).map_err(misasked)?;
        told(&Watch::undisturbed(|watch| {
            questions::changes(&self.decoded, device, events, by, watch)
        }))
    }

    fn what_if(&self) -> Result<Response, Refused> {
        let conditions: Conditions = self.request.asked()?;
        if self.number.is_pinned() {
            return Err(bad_request(NOT_OF_PINNED));
        }
        let asked = Asked::of(&conditions).map_err(|error| bad_request(error.to_string()))?;
        let (trace, device) = (&self.decoded.trace, self.device()?);
        told(&Watch::undisturbed(|watch| {
            what_if_drawn(trace, device, &asked, watch)
        }))
    }

    /// What groups stand for.
    fn by(&self, usual: Dimension) -> Result<Dimension, Refused> {
        let Groups { by: Some(by) } = self.request.asked()? else {
            return Ok(usual);
        };
        Dimension::from_str(&by).map_err(|error| bad_request(error.to_string()))
    }

    /// The moment that is asked for.
    fn moment(&self, at: Option<u32>) -> Result<Option<EventIdx>, Refused> {
        asked::moment(self.device()?, at).map_err(misasked)
    }
}

fn told(value: &impl Serialize) -> Result<Response, Refused> {
    Ok(Response::json(value))
}

fn tile(level: &str, index: &str) -> Result<TileId, Refused> {
    let level: u8 = in_path(level, "level")?;
    let index = in_path(index, "index")?;
    match level <= MAX_LEVEL {
        true => Ok(TileId { level, index }),
        false => Err(missing(format!("tile level {level}"))),
    }
}

/// The run in words, as a page or as a document.
///
/// # Errors
/// When it has no such device or loop.
pub fn explained(run: &Run, request: &Request) -> Result<Response, Refused> {
    #[derive(Deserialize)]
    struct Query {
        device: Option<DeviceIdx>,
        limit: Option<String>,
        steps: Option<String>,
    }
    let query: Query = request.asked()?;
    let limit = query.limit.as_deref().map(str::parse::<Bytes>).transpose();
    let limit = limit.map_err(|error| bad_request(format!("limit: {error}")))?;
    let decoded = run.decoded(query.steps.as_deref())?;
    let device = match query.device {
        Some(device) => Some(decoded.device(device).map_err(no_device)?),
        None => main_device::of(&decoded.trace),
    };
    let trace = &decoded.trace;
    let refused = |watch: Watch<'_>| explain::refusal_of(limit, trace, device, watch);
    if let Some(why) = Watch::undisturbed(refused) {
        return Err(bad_request(format!("limit: {why}")));
    }
    let explanation =
        Watch::undisturbed(|watch| explain::explain(&run.name, trace, device, limit, watch));
    match request.accept.starts_with(JSON) {
        true => Ok(Response::json(&explanation)),
        false => Ok(Response::bytes(
            MARKDOWN,
            explain::page(&explanation).into_bytes(),
        )),
    }
}

/// The card of a run as Markdown.
///
/// # Errors
/// When the view is not understood.
pub fn card(run: &Run, request: &Request) -> Result<Response, Refused> {
    let parsed = ViewState::parse(request.query());
    let (view, _) = parsed.map_err(|error| bad_request(error.to_string()))?;
    let links = links(request)?;
    let decoded = run.decoded(None)?;
    let format = &decoded.trace.format;
    let torch = format.torch_guess.as_deref();
    let head = Head {
        id: &run.id,
        name: &run.name,
        written_by: RunSource::Upload.written_by(&format.settings, torch),
        devices: &run.facts,
    };
    let look = Look {
        view,
        texts: Texts::AS_RECORDED,
        theme: Theme::Light,
    };
    let watches = Watches {
        judging: Watch::nobody(),
        drawing: Watch::nobody(),
    };
    let card = RunCard::new(&head, &decoded, &look, watches);
    let card = card.map_err(no_card)?;
    let block = markdown::run(&card, links.as_ref(), names(request)?);
    Ok(Response::bytes(MARKDOWN, block.into_bytes()))
}

/// Where a block of Markdown leads: to a link that a server made for this tab, if the request names
/// one. Otherwise nowhere: the recording is open in this tab only, so nobody else can open it here.
///
/// # Errors
/// When the query is malformed.
pub fn links(request: &Request) -> Result<Option<Links>, Refused> {
    #[derive(Deserialize)]
    struct Query {
        link: Option<String>,
    }
    let Query { link } = request.asked()?;
    let is_slug = |slug: &String| slug.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let made = link.filter(is_slug).zip(request.server.as_deref());
    Ok(made.map(|(slug, server)| Links {
        page: format!("{server}{}", routes::share_page(&slug)),
        image: Some(format!("{server}{}", routes::share_card(&slug))),
    }))
}

/// What a redacted link to a run would hide.
///
/// # Errors
/// As [`Run::decoded`].
pub fn redacted(run: &Run) -> Result<Response, Refused> {
    let decoded = run.decoded(None)?;
    let key = Key::new(*EXAMPLE_KEY);
    let preview = redaction::preview(&decoded.trace, &run.id, run.name.clone(), key);
    Ok(Response::json(&preview))
}

/// How much a block of Markdown says.
///
/// # Errors
/// When the query is malformed.
pub fn names(request: &Request) -> Result<Names, Refused> {
    #[derive(Deserialize)]
    struct Query {
        #[serde(default)]
        numbers_only: u8,
    }
    let query: Query = request.asked()?;
    Ok(Names::asked(query.numbers_only))
}
