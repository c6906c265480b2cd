//! Geometry of overlays.

use super::*;
use crate::scene::{Shape, text_width};
use api::compare::Curve;

/// Two runs of ten parts: the baseline at 100 MiB, the other 50 MiB lower except for one peak.
fn curves() -> Curves {
    let mib = 1_u64 << 20;
    let run = |level: u64, peak: u64| Curve {
        parts: (0..10)
            .map(|part| {
                let high = if part == 6 { peak } else { level };
                Some([level * mib, high * mib, level * mib])
            })
            .collect(),
        events: (0..=10).map(|part| part * 10).collect(),
        steps: vec![None; 10],
    };
    Curves {
        whole: (0.0, 10.0),
        window: (0.0, 10.0),
        begins: vec![0, 0],
        runs: vec![run(100, 100), run(50, 200)],
    }
}

fn overlay(curves: &Curves, window: (f64, f64)) -> Overlay<'_> {
    Overlay {
        curves,
        window,
        align: Align::Step,
        runs: &[0, 1],
        against: 1,
        band: None,
        filled: true,
        detail: Detail::Full,
        high: None,
    }
}

const CANVAS: Canvas = Canvas {
    width: 682.0,
    height: 400.0,
    scale: 2.0,
};

fn fills(scene: &crate::scene::Scene, colour: Rgba) -> Vec<PxRect> {
    let rects = scene.shapes.iter().filter_map(|shape| match *shape {
        Shape::Fill { rect, colour: with } if with == colour => Some(rect),
        _ => None,
    });
    rects.collect()
}

#[test]
fn everything_has_its_place_at_any_pixel_ratio() {
    for scale in [1.0, 1.5, 2.0, 3.0] {
        for width in [340.0, 1300.0] {
            let canvas = Canvas {
                width,
                height: 400.0,
                scale,
            };
            let places = Places::of(canvas, Detail::Full);
            assert!(places.plot.y1 <= places.lane.y0 && places.lane.y1 <= places.axis.y0);
            assert!(places.axis.y1 <= places.canvas.y1 && places.axis.x1 <= places.canvas.x1);
            assert!(places.plot.height() > places.lane.height());
            let small = Places::of(canvas, Detail::Small);
            assert_eq!((small.lane.height(), small.axis.height()), (0, 0));
        }
    }
}

#[test]
fn the_axis_under_a_pixel_is_where_it_is_drawn() {
    let places = Places::of(CANVAS, Detail::Full);
    let window = (2.0, 4.0);
    for at in [2.0, 2.5, 3.99] {
        let css = places.x(window, at) / CANVAS.scale;
        assert!((places.axis_at(window, css) - at).abs() < 1e-9);
    }
    assert_eq!(places.axis_at(window, 0.0), 2.0);
    assert_eq!(places.axis_at(window, 9e9), 4.0);
}

#[test]
fn differences_go_up_for_more_and_down_for_less() {
    let curves = curves();
    let overlay = overlay(&curves, (0.0, 10.0));
    let palette = Palette::light();
    let scene = scene(&overlay, CANVAS, &palette);
    let lane = Places::of(CANVAS, Detail::Full).lane;
    let middle = (lane.y0 + lane.y1) / 2;
    let (more, less) = draw::difference_colours(&palette);
    let up = fills(&scene, more);
    assert_eq!(up.len(), 1, "one part is higher");
    assert!(up[0].y1 == middle && up[0].y0 >= lane.y0);
    let down = fills(&scene, less);
    assert_eq!(down.len(), 9);
    assert!(down.iter().all(|bar| bar.y0 == middle && bar.y1 <= lane.y1));
    // Half as much is half as long.
    assert!((down[0].height() * 2 - up[0].height()).abs() <= 1);
}

#[test]
fn a_peak_of_one_part_reaches_its_height_however_narrow() {
    let curves = curves();
    let palette = Palette::light();
    for width in [120.0, 682.0] {
        let canvas = Canvas { width, ..CANVAS };
        let overlay = overlay(&curves, (0.0, 10.0));
        let scene = scene(&overlay, canvas, &palette);
        let line = fills(&scene, run_colour(&palette, 1));
        let top = line.iter().map(|rect| rect.y0).min().unwrap();
        let places = Places::of(canvas, Detail::Full);
        let expected = places.plot.y1 - (f64::from(places.plot.height()) / 1.04).round() as i32;
        assert!((top - expected).abs() <= places.px(1.5), "{top} {expected}");
    }
}

#[test]
fn only_what_is_visible_counts() {
    let curves = curves();
    let whole = overlay(&curves, (0.0, 10.0));
    assert_eq!((whole.visible(), whole.highest()), (0..10, 200 << 20));
    let before = overlay(&curves, (0.5, 2.5));
    assert_eq!((before.visible(), before.highest()), (0..3, 100 << 20));
    let beyond = overlay(&curves, (20.0, 30.0));
    assert_eq!((beyond.visible().len(), beyond.highest()), (0, 0));
    scene(&beyond, CANVAS, &Palette::light());
}

#[test]
fn readouts_are_exact_and_absent_runs_are_said_to_be() {
    let mut curves = curves();
    curves.runs[1].parts[9] = None;
    let overlay = overlay(&curves, (0.0, 10.0));
    let here = readout(&overlay, 6.4).unwrap();
    assert_eq!(here.place, "step 6, 40 % through");
    assert_eq!((here.at, here.difference), (6.0, Some(100 << 20)));
    assert_eq!(here.rows[1].levels, Some((50 << 20, 200 << 20)));
    assert_eq!(here.rows[1].event, 60);
    let there = readout(&overlay, 9.5).unwrap();
    assert_eq!((there.rows[1].levels, there.difference), (None, None));
    assert_eq!(readout(&overlay, 11.0), None);
    assert_eq!(overlay.place(-0.5), "before the first step");
    let by_event = Overlay {
        align: Align::Event,
        ..overlay
    };
    assert_eq!(by_event.place(12_345.0), "event 12,345");
    let mut pass = curves.clone();
    pass.whole = (0.0, 1.0);
    let pass = Overlay {
        curves: &pass,
        ..overlay
    };
    assert_eq!(pass.place(0.4), "40 % through");
}

#[test]
fn windows_stay_inside_and_keep_the_place_under_the_pointer() {
    let whole = (-1.0, 9.0);
    let near = zoomed(whole, whole, 4.0, 2.0, Align::Step).unwrap();
    assert_eq!(near, (1.5, 6.5));
    assert_eq!(
        zoomed(near, whole, 4.0, 0.5, Align::Step),
        None,
        "the whole"
    );
    let narrow = zoomed(near, whole, 4.0, 1e9, Align::Step).unwrap();
    assert!((narrow.1 - narrow.0 - narrowest(Align::Step)).abs() < 1e-9);
    assert_eq!(panned(near, whole, 0.1), Some((2.0, 7.0)));
    assert_eq!(panned(near, whole, 9.0), Some((4.0, 9.0)));
    assert_eq!(panned(whole, whole, 0.5), None);
}

#[test]
fn only_a_baseline_is_shaded_down_to_the_axis() {
    let curves = curves();
    let shaded = |filled| {
        let overlay = Overlay {
            filled,
            ..overlay(&curves, (0.0, 10.0))
        };
        let bottom = Places::of(CANVAS, overlay.detail).plot.y1;
        let scene = scene(&overlay, CANVAS, &Palette::light());
        let reaches =
            |shape: &&Shape| matches!(shape, Shape::Fill { rect, .. } if rect.y1 == bottom);
        scene.shapes.iter().filter(reaches).count()
    };
    assert!(shaded(true) > 0);
    assert_eq!(shaded(false), 0);
}

#[test]
fn the_sign_of_a_difference_is_on_the_canvas() {
    let curves = curves();
    for width in [320.0, 682.0] {
        let canvas = Canvas { width, ..CANVAS };
        let scene = scene(&overlay(&curves, (0.0, 10.0)), canvas, &Palette::light());
        let differs = |text: &&crate::scene::Text| text.text.starts_with(['+', '\u{2212}']);
        let texts: Vec<_> = scene.texts.iter().filter(differs).collect();
        assert_eq!(texts.len(), 2);
        for text in texts {
            // Some fonts are wider than what is reckoned with.
            let long = f64::from(text_width("+99.9 GiB", text.size)) * 1.1;
            assert!(f64::from(text.x) >= long, "{} at {width}", text.text);
        }
    }
}

#[test]
fn small_pictures_have_no_words() {
    let curves = curves();
    let small = Overlay {
        detail: Detail::Small,
        ..overlay(&curves, (0.0, 10.0))
    };
    let scene = scene(
        &small,
        Canvas {
            width: 120.0,
            height: 40.0,
            scale: 1.0,
        },
        &Palette::light(),
    );
    assert!(scene.texts.is_empty() && !scene.shapes.is_empty());
}

#[test]
fn a_canvas_of_any_size_is_painted() {
    let curves = curves();
    for detail in [Detail::Full, Detail::Axes, Detail::Small] {
        for (width, height) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (1300.0, 1.0),
            (1.0, 400.0),
            (60.0, 20.0),
        ] {
            let overlay = Overlay {
                detail,
                ..overlay(&curves, (0.0, 10.0))
            };
            let canvas = Canvas {
                width,
                height,
                scale: 1.5,
            };
            let scene = scene(&overlay, canvas, &Palette::light());
            assert!(!scene.shapes.is_empty(), "{detail:?} {width} {height}");
        }
    }
}
