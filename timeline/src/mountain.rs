//! The mountain's part of the scene: bands, seams between them, and labels that fit inside.
//!
//! Each run of pixel columns shows one column of the layout, the highest that it covers. Entries
//! that are lower than about a pixel are merged with others of their group. So the number of
//! rectangles depends on pixels, not on allocations. A band whose edges stay the same from run to
//! run is one rectangle.

use super::colours::{Palette, Rgba};
use super::order;
use super::plot::{Columns, Layout, PxRect, Rows, Run, TilePart};
use super::scene::{Anchor, Scene, Text, fitted, text_width};
use super::stack::{Item, ItemIdx, StackLayout};
use super::tile_cache::Piece;
use crate::format::count;
use trace::tiles::MountainTile;

/// A mountain tile with its layout.
#[derive(Debug)]
pub struct Mountain {
    /// The data.
    pub tile: MountainTile,
    /// The positions of its bands.
    pub layout: StackLayout,
}

impl Mountain {
    /// Computes the layout of a tile.
    pub fn new(tile: MountainTile) -> Mountain {
        let layout = StackLayout::new(&tile);
        Mountain { tile, layout }
    }

    /// About how many bytes of memory it takes.
    pub fn cost(&self) -> usize {
        let rest: usize = self
            .tile
            .groups
            .iter()
            .map(|g| g.rest_level.len() * 8)
            .sum();
        self.layout.cost() + rest + self.tile.blocks.len() * 32
    }

    /// The part of the tile to show for a piece of the window.
    pub fn part(&self, from: f64, to: f64) -> TilePart {
        TilePart {
            first: self.tile.id.first_event() as f64,
            bucket_events: self.tile.id.bucket_events() as f64,
            n_buckets: self.tile.samples.len(),
            from,
            to,
        }
    }
}

/// The surroundings in which a frame is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Areas.
    pub layout: &'a Layout,
    /// Events of the pixel columns.
    pub columns: &'a Columns,
    /// Rows of the levels.
    pub rows: &'a Rows,
    /// Colours.
    pub palette: &'a Palette,
}

/// Entries lower than this many pixels are merged with others of their group.
const CRUMB_PX: f64 = 1.5;
/// Bands of at least this many CSS pixels get a seam.
const SEAM_FROM_CSS: f64 = 4.0;
/// A name of a band that does not fit is cut to no fewer letters.
const FEWEST_LETTERS: usize = 10;
/// Seams shorter than this are left out, CSS pixels.
const SEAM_WIDTH_CSS: f64 = 5.0;
/// Font of labels inside bands, CSS pixels.
const LABEL_CSS: f64 = 11.0;

/// Adds the mountain.
pub fn draw(scene: &mut Scene, pieces: &[Piece<Mountain>], frame: Frame<'_>) {
    let mut labels = Vec::new();
    for piece in pieces {
        let mut pen = Pen::new(scene, &piece.tile, frame);
        for run in frame.columns.runs(piece.tile.part(piece.from, piece.to)) {
            pen.draw_run(run);
        }
        pen.finish(&mut labels);
    }
    scene.texts.append(&mut labels);
}

/// A band that may continue in the next run.
#[derive(Clone, Copy, Default)]
struct Open {
    rect: PxRect,
    /// Number of the last run that it was part of, from 1; 0 if nothing is open.
    run: u32,
}

impl Open {
    /// Whether a rectangle of this run continues it at the same height.
    fn goes_on_in(&self, run: u32, rect: PxRect) -> bool {
        self.run > 0
            && self.run + 1 == run
            && (self.rect.x1, self.rect.y0, self.rect.y1) == (rect.x0, rect.y0, rect.y1)
    }
}

/// The position of a group's band in a run, if it was high enough for a label.
#[derive(Clone, Copy)]
struct GroupSpan {
    group: u16,
    rect: PxRect,
}

struct Pen<'a> {
    scene: &'a mut Scene,
    mountain: &'a Mountain,
    frame: Frame<'a>,
    open: Vec<Open>,
    run: u32,
    /// Lines between groups that may continue in the next run.
    open_seams: Vec<Open>,
    /// Lines between groups, over all bands.
    seams: Vec<PxRect>,
    group_spans: Vec<GroupSpan>,
    /// The largest rectangle of each item that could hold a label.
    roomy: Vec<(Item, PxRect)>,
    label_height: i32,
    seam_from: i32,
    seam_width: i32,
    hairline: i32,
}

/// The state while going up a column; levels in quanta.
#[derive(Clone, Copy)]
struct Climb {
    /// The current group.
    group: Option<u16>,
    /// The level where its band begins.
    band_from: u32,
    /// The level where a row of entries begins that are too low to be drawn one by one.
    crumbs_from: Option<u32>,
}

impl Climb {
    fn new(group: Option<u16>, from: u32) -> Climb {
        Climb {
            group,
            band_from: from,
            crumbs_from: None,
        }
    }
}

impl<'a> Pen<'a> {
    fn new(scene: &'a mut Scene, mountain: &'a Mountain, frame: Frame<'a>) -> Pen<'a> {
        Pen {
            scene,
            mountain,
            open: vec![Open::default(); mountain.layout.n_items()],
            run: 0,
            open_seams: vec![Open::default(); mountain.tile.groups.len()],
            seams: Vec::new(),
            group_spans: Vec::new(),
            roomy: Vec::new(),
            label_height: frame.layout.px(LABEL_CSS + 3.0),
            seam_from: frame.layout.px(SEAM_FROM_CSS),
            seam_width: frame.layout.px(SEAM_WIDTH_CSS),
            hairline: frame.layout.px(0.5),
            frame,
        }
    }

    /// The row of a level in quanta.
    fn row(&self, quanta: u32) -> i32 {
        let bytes = self.mountain.layout.bytes(quanta);
        self.frame.rows.row(bytes.get() as f64)
    }

    /// Goes up one column. This is the inner loop of a frame: a column may hold a thousand entries,
    /// so each merged entry must cost only one comparison.
    fn draw_run(&mut self, run: Run) {
        self.run += 1;
        let layout = &self.mountain.layout;
        let (items, tops) = layout.column(layout.highest(run.first, run.end));
        let rows = self.frame.rows;
        let quantum = layout.quantum() as f64;
        let crumb = (CRUMB_PX / rows.height_of(quantum)).ceil() as u32;
        let first = tops.partition_point(|&top| f64::from(top) * quantum <= rows.low());
        let high = (rows.level(f64::from(self.frame.layout.plot.y0)) / quantum) as u32;
        let mut below = if first == 0 { 0 } else { tops[first - 1] };
        let mut climb = Climb::new(None, below);
        for (&index, &top) in items[first..].iter().zip(&tops[first..]) {
            if below > high {
                break;
            }
            let group = layout.group_of_index(index);
            if group != climb.group {
                self.end_band(climb, below, run);
                climb = Climb::new(group, below);
            }
            if top - below < crumb && group.is_some() {
                climb.crumbs_from.get_or_insert(below);
            } else {
                self.melt(&mut climb, below, run);
                let (y0, y1) = (self.row(top), self.row(below));
                self.lay(index, rect(run, y0, y1));
            }
            below = top;
        }
        self.end_band(climb, below, run);
    }

    /// Draws the merged entries up to a level as one rectangle of their group.
    fn melt(&mut self, climb: &mut Climb, top: u32, run: Run) {
        if let (Some(from), Some(group)) = (climb.crumbs_from.take(), climb.group) {
            let index = self.mountain.layout.index(Item::Rest(group));
            let (y0, y1) = (self.row(top), self.row(from));
            self.lay(index, rect(run, y0, y1));
        }
    }

    fn end_band(&mut self, mut climb: Climb, top: u32, run: Run) {
        self.melt(&mut climb, top, run);
        let Some(group) = climb.group else {
            return;
        };
        let (y0, y1) = (self.row(top), self.row(climb.band_from));
        if y1 - y0 < self.seam_from {
            return;
        }
        self.lay_seam(group, rect(run, y0, y0 + self.hairline));
        if y1 - y0 >= self.label_height {
            let rect = rect(run, y0, y1);
            self.group_spans.push(GroupSpan { group, rect });
        }
    }

    fn lay_seam(&mut self, group: u16, seam: PxRect) {
        let run = self.run;
        let open = &mut self.open_seams[group as usize];
        let before = *open;
        if before.goes_on_in(run, seam) {
            (open.rect.x1, open.run) = (seam.x1, run);
            return;
        }
        *open = Open { rect: seam, run };
        self.keep_seam(before);
    }

    /// Leaves out short seams: where bands jump at every pixel, they would look like snow.
    fn keep_seam(&mut self, seam: Open) {
        if seam.run > 0 && seam.rect.width() >= self.seam_width {
            self.seams.push(seam.rect);
        }
    }

    /// Adds a rectangle of an item. If the edges are the same as in the run before, that rectangle
    /// becomes longer instead.
    fn lay(&mut self, index: ItemIdx, rect: PxRect) {
        if rect.height() == 0 {
            return;
        }
        let open = &mut self.open[index.0 as usize];
        if open.run == self.run {
            // The item's second rectangle in this run (merged entries of a group may lie between
            // its larger blocks).
            return self.emit(index, rect);
        }
        let before = *open;
        open.run = self.run;
        if before.goes_on_in(self.run, rect) {
            open.rect.x1 = rect.x1;
            return;
        }
        open.rect = rect;
        if before.run > 0 {
            self.emit(index, before.rect);
        }
    }

    fn emit(&mut self, index: ItemIdx, rect: PxRect) {
        let item = self.mountain.layout.item(index);
        let palette = self.frame.palette;
        let colour = colour_of(palette, &self.mountain.tile, item, rect.height());
        self.scene.fill(rect, colour);
        match item {
            Item::Pending => {
                let spacing = self.frame.layout.px(6.0);
                self.scene.hatch(rect, palette.pending, spacing);
            }
            Item::Block(_)
                if rect.height() >= self.seam_from && rect.width() >= self.seam_width =>
            {
                let seam = PxRect {
                    y1: rect.y0 + self.hairline,
                    ..rect
                };
                self.scene.fill(seam, palette.seam(colour));
            }
            _ => {}
        }
        let roomy = rect.height() >= self.label_height && rect.width() >= 3 * self.label_height;
        if roomy && matches!(item, Item::Block(_) | Item::Base | Item::Pending) {
            self.roomy.push((item, rect));
        }
    }

    fn finish(mut self, labels: &mut Vec<Text>) {
        for index in 0..self.open.len() {
            let open = self.open[index];
            if open.run > 0 {
                self.emit(ItemIdx(index as u32), open.rect);
            }
        }
        for seam in std::mem::take(&mut self.open_seams) {
            self.keep_seam(seam);
        }
        let colour = self.frame.palette.surface.with_alpha(0.7);
        for &rect in &self.seams {
            self.scene.fill(rect, colour);
        }
        let mut labelled = vec![false; self.mountain.tile.groups.len()];
        self.label_items(labels, &mut labelled);
        self.label_groups(labels, &labelled);
    }

    /// One label for each item with room for one, in its largest rectangle.
    fn label_items(&mut self, labels: &mut Vec<Text>, labelled: &mut [bool]) {
        let area = |r: &PxRect| i64::from(r.width()) * i64::from(r.height().min(40));
        order::sort_by_key(&mut self.roomy, |(item, rect)| (*item, -area(rect)));
        self.roomy.dedup_by_key(|(item, _)| *item);
        let size = LABEL_CSS * self.frame.layout.scale;
        for (item, rect) in &self.roomy {
            let room = rect.width() - self.frame.layout.px(8.0);
            let texts = item_texts(&self.mountain.tile, *item);
            let Some(text) = texts.into_iter().find(|t| text_width(t, size) <= room) else {
                continue;
            };
            let fill = colour_of(
                self.frame.palette,
                &self.mountain.tile,
                *item,
                rect.height(),
            );
            labels.push(Text {
                x: (rect.x0 + rect.x1) / 2,
                y: (rect.y0 + rect.y1) / 2,
                anchor: Anchor::Middle,
                size,
                colour: if *item == Item::Pending {
                    self.frame.palette.text
                } else {
                    fill.ink()
                },
                text,
            });
            if let Some(group) = self.mountain.layout.group_of(*item) {
                labelled[group as usize] = true;
            }
        }
    }

    /// A name for each group without any named block, if its band has room for it.
    fn label_groups(&mut self, labels: &mut Vec<Text>, labelled: &[bool]) {
        let size = LABEL_CSS * self.frame.layout.scale;
        order::sort_by_key(&mut self.group_spans, |span| (span.group, span.rect.x0));
        for spans in self.group_spans.chunk_by(|a, b| a.group == b.group) {
            let group = spans[0].group as usize;
            if labelled[group] {
                continue;
            }
            let info = &self.mountain.tile.groups[group];
            let Some(room) = roomiest(spans, self.label_height) else {
                continue;
            };
            let width = room.width() - self.frame.layout.px(8.0);
            let name = info.name();
            let name = match text_width(&name, size) <= width {
                true => name,
                false => info.label.clone(),
            };
            // `forw…` tells nothing that the list beside the picture does not tell better.
            let says = |text: &String| *text == name || text.chars().count() > FEWEST_LETTERS;
            let Some(text) = fitted(&name, size, width).filter(says) else {
                continue;
            };
            let fill = self.frame.palette.group(info.key, info.order);
            labels.push(Text {
                x: (room.x0 + room.x1) / 2,
                y: (room.y0 + room.y1) / 2,
                anchor: Anchor::Middle,
                size,
                colour: fill.ink(),
                text,
            });
        }
    }
}

fn rect(run: Run, y0: i32, y1: i32) -> PxRect {
    PxRect {
        x0: run.x0,
        y0,
        x1: run.x1,
        y1,
    }
}

/// The rectangle inside neighbouring spans with the most room. At each span a rectangle starts and
/// grows to the right, as long as the part that all its spans share is high enough for text.
fn roomiest(spans: &[GroupSpan], height: i32) -> Option<PxRect> {
    // A label is one line high and long, so height beyond three lines does not count.
    let worth = |r: &PxRect| i64::from(r.width()) * i64::from(r.height().min(3 * height));
    let mut best: Option<PxRect> = None;
    let mut open: Vec<PxRect> = Vec::new();
    for span in spans {
        open.retain_mut(|r| {
            let (y0, y1) = (r.y0.max(span.rect.y0), r.y1.min(span.rect.y1));
            let goes_on = r.x1 == span.rect.x0 && y1 - y0 >= height;
            if goes_on {
                *r = PxRect {
                    x0: r.x0,
                    y0,
                    x1: span.rect.x1,
                    y1,
                };
            }
            goes_on
        });
        // A rectangle that starts here is better than earlier ones that are not higher; so at most
        // a few are ever open.
        let lower = |r: &PxRect| r.height() >= span.rect.height();
        if !open.iter().any(lower) && open.len() < 8 {
            open.push(span.rect);
        }
        for rect in &open {
            if best.is_none_or(|b| worth(rect) > worth(&b)) {
                best = Some(*rect);
            }
        }
    }
    best
}

/// The colour of an item that is drawn `height` pixels high.
pub fn colour_of(palette: &Palette, tile: &MountainTile, item: Item, height: i32) -> Rgba {
    let group = |g: u16| {
        let group = &tile.groups[g as usize];
        palette.group(group.key, group.order)
    };
    match item {
        Item::Base => palette.rest.mixed(palette.surface, 0.35),
        Item::Rest(g) => group(g),
        Item::Block(b) => {
            let block = &tile.blocks[b as usize];
            palette.block(group(block.group), block.block.0, f64::from(height))
        }
        Item::Pending => palette.pending.mixed(palette.surface, 0.7),
    }
}

/// Texts that could be written on an item, longest first.
fn item_texts(tile: &MountainTile, item: Item) -> Vec<String> {
    match item {
        Item::Block(b) => {
            let block = &tile.blocks[b as usize];
            let group = &tile.groups[block.group as usize];
            let mut texts = vec![format!("{} · {}", group.label, block.size)];
            if !group.caller.is_empty() {
                texts.insert(0, format!("{} · {}", group.name(), block.size));
            }
            texts.push(block.size.to_string());
            texts
        }
        Item::Base => {
            let (n, bytes) = (count(tile.base.blocks), tile.base.bytes);
            vec![
                format!("{n} blocks that live throughout · {bytes}"),
                format!("{n} blocks · {bytes}"),
            ]
        }
        Item::Pending => vec![
            "freed, still in use by another stream".into(),
            "pending".into(),
        ],
        Item::Rest(g) => {
            let group = &tile.groups[g as usize];
            vec![group.name(), group.label.clone()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisMap;
    use crate::plot::Measure;
    use crate::scene::Shape;
    use crate::testing::mountain;
    use crate::viewport::{Limits, Viewport};
    use std::rc::Rc;

    fn scene_of(tile: MountainTile, viewport: Viewport, high_mib: f64) -> (Scene, PxRect) {
        let (from, to) = (viewport.from, viewport.to);
        let id = tile.id;
        let pieces = [Piece {
            tile: Rc::new(Mountain::new(tile)),
            id,
            from,
            to,
        }];
        let layout = Layout::new(Measure {
            width: 272.0,
            height: 230.0,
            scale: 1.0,
            has_steps: false,
            has_host: false,
            lanes: 0,
        });
        let high = high_mib * f64::from(1 << 20);
        let limits = Limits {
            n_events: to,
            auto_high: high,
            max_high: high,
        };
        let columns = Columns::new(layout.plot, &viewport, &AxisMap::Event);
        let rows = Rows::new(layout.plot, &viewport, limits);
        let palette = Palette::light();
        let mut scene = Scene::new((layout.canvas.x1, layout.canvas.y1));
        let frame = Frame {
            layout: &layout,
            columns: &columns,
            rows: &rows,
            palette: &palette,
        };
        draw(&mut scene, &pieces, frame);
        (scene, layout.plot)
    }

    /// How many pixels of each column are covered by something opaque. Checks that none is covered
    /// twice.
    fn covered(scene: &Scene, plot: PxRect) -> Vec<i32> {
        let mut rows = vec![vec![0_u8; plot.height() as usize]; plot.width() as usize];
        for shape in &scene.shapes {
            let Shape::Fill { rect, colour } = shape else {
                continue;
            };
            assert!(
                rect.x0 >= plot.x0 && rect.x1 <= plot.x1,
                "{rect:?} leaves the plot"
            );
            for x in rect.x0..rect.x1 {
                for y in rect.y0..rect.y1 {
                    if colour.3 == 255 {
                        rows[(x - plot.x0) as usize][(y - plot.y0) as usize] = 1;
                    }
                }
            }
        }
        rows.iter()
            .map(|c| c.iter().map(|&v| i32::from(v)).sum())
            .collect()
    }

    #[test]
    fn the_mountain_is_as_high_as_what_is_allocated() {
        let blocks = [(0, 0, 10, 40), (1, 5, 20, 60), (1, 6, 9, 30)];
        let tile = mountain(20, 0, &blocks);
        let (scene, plot) = scene_of(tile, Viewport::whole(20.0), 200.0);
        let covered = covered(&scene, plot);
        let at = |event: usize| covered[event * covered.len() / 20 + 2];
        assert_eq!((at(0), at(5), at(7), at(12)), (40, 100, 130, 60));
    }

    #[test]
    fn a_thousand_crumbs_are_one_rectangle() {
        let crumbs: Vec<_> = (0..100).map(|_| (0, 0, 20, 1)).collect();
        let (scene, plot) = scene_of(mountain(20, 0, &crumbs), Viewport::whole(20.0), 200.0);
        assert_eq!(covered(&scene, plot), vec![100; plot.width() as usize]);
        assert!(scene.shapes.len() <= 3, "{} shapes", scene.shapes.len());
    }

    #[test]
    fn zoomed_in_a_block_is_drawn_alone_and_says_its_size() {
        let crumbs: Vec<_> = (0..100).map(|_| (0, 0, 20, 1)).collect();
        let mib = f64::from(1 << 20);
        let close = Viewport {
            from: 2.0,
            to: 8.0,
            levels: Some((50.0 * mib, 56.0 * mib)),
        };
        let (scene, _) = scene_of(mountain(20, 0, &crumbs), close, 200.0);
        let labels: Vec<&str> = scene.texts.iter().map(|t| t.text.as_str()).collect();
        assert_eq!(labels, ["g0 · 1.00 MiB"; 6]);
    }

    #[test]
    fn what_is_pending_is_striped() {
        let mut tile = mountain(20, 0, &[(0, 0, 20, 40)]);
        tile.pending[3..6].fill(trace::units::Bytes::mib(30));
        let (scene, _) = scene_of(tile, Viewport::whole(20.0), 200.0);
        let striped = |s: &&Shape| matches!(s, Shape::Hatch { rect, .. } if rect.height() == 30);
        assert_eq!(scene.shapes.iter().filter(striped).count(), 1);
    }
}
