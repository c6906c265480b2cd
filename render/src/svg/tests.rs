//! The document paints the same as the PNG.

use super::*;
use timeline::paint;
use timeline::plot::PxRect;
use timeline::raster::Raster;

const SIZE: (i32, i32) = (90, 70);

/// Numbers that look random, but are the same each time.
struct Lot(u32);

impl Lot {
    fn below(&mut self, n: i32) -> i32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as i32 % n
    }
}

/// Rectangles with few paints; many overlap, and some reach beyond the edge.
fn scene(seed: u32) -> Scene {
    let mut lot = Lot(seed);
    let mut scene = Scene::new(SIZE);
    let paints = [
        Rgba(200, 10, 10, 255),
        Rgba(10, 200, 10, 255),
        Rgba(10, 10, 200, 255),
        Rgba(0, 0, 0, 90),
    ];
    for _ in 0..120 {
        let (x0, y0) = (lot.below(100) - 5, lot.below(80) - 5);
        let (x1, y1) = (x0 + lot.below(20), y0 + lot.below(20));
        let rect = PxRect { x0, y0, x1, y1 };
        match lot.below(6) {
            5 => scene.hatch(rect, Rgba(120, 0, 90, 140), 5),
            paint => scene.fill(rect, paints[paint.min(3) as usize]),
        }
    }
    scene
}

/// Turns the layers of a scene into shapes again.
fn again(scene: &Scene) -> Scene {
    let mut painted = Scene::new(scene.size);
    for layer in layers(scene).unwrap() {
        let mut cover = cover::Cover::new(scene.size);
        for Outline { x0, upper, lower } in layer.outlines {
            let level = |edge: &[(i32, i32)], x| edge.iter().find(|(end, _)| x < *end).unwrap().1;
            for x in x0..upper.last().unwrap().0 {
                let (y0, y1) = (level(&upper, x), level(&lower, x));
                assert!(y0 < y1, "an edge crosses the other");
                let x1 = x + 1;
                cover.add(PxRect { x0: x, y0, x1, y1 });
            }
        }
        for x in cover.columns() {
            for (y0, y1) in cover.stretches(x) {
                let x1 = x + 1;
                let rect = PxRect { x0: x, y0, x1, y1 };
                match layer.paint {
                    Paint::Fill(colour) => painted.fill(rect, colour),
                    Paint::Hatch { colour, spacing } => painted.hatch(rect, colour, spacing),
                }
            }
        }
    }
    painted
}

fn pixels(scene: &Scene) -> Vec<u8> {
    let mut raster = Raster::new();
    raster.clear(
        scene.size.0 as u32,
        scene.size.1 as u32,
        Rgba(255, 255, 255, 255),
    );
    paint::shapes(scene, &mut &mut raster).unwrap();
    raster.pixels().to_vec()
}

#[test]
fn what_is_gathered_looks_the_same_pixel_by_pixel() {
    for seed in 0..200 {
        let scene = scene(seed);
        assert!(pixels(&scene) == pixels(&again(&scene)), "seed {seed}");
    }
}

#[test]
fn columns_side_by_side_become_one_path() {
    let mut scene = Scene::new(SIZE);
    let (below, above) = (Rgba(1, 2, 3, 255), Rgba(4, 5, 6, 255));
    for x in 0..SIZE.0 {
        let (x1, border) = (x + 1, 20 + x % 7);
        scene.fill(
            PxRect {
                x0: x,
                y0: border,
                x1,
                y1: 60,
            },
            below,
        );
        scene.fill(
            PxRect {
                x0: x,
                y0: 10,
                x1,
                y1: border,
            },
            above,
        );
    }
    let layers = layers(&scene).unwrap();
    assert_eq!(layers.len(), 2);
    // A shape behind continues straight under the shape in front of it.
    let outline = &layers[0].outlines[..];
    assert_eq!(outline[0].upper.len(), 1, "{outline:?}");
    assert_eq!((outline.len(), layers[1].outlines.len()), (1, 1));
}

/// Each rectangle lies over the one before and has another paint, so each would be a layer.
#[test]
fn a_scene_of_too_many_layers_becomes_one_image() {
    let heap = |n: i32| {
        let mut scene = Scene::new(SIZE);
        for at in 0..n {
            let (x0, x1, y1) = (at % 40, SIZE.0, SIZE.1);
            let rect = PxRect { x0, y0: 0, x1, y1 };
            let alpha = if at % 2 == 0 { 90 } else { 255 };
            scene.fill(rect, Rgba((at % 251) as u8, 7, 99, alpha));
        }
        scene
    };
    let document = |n| String::from_utf8(svg(&heap(n))).unwrap();
    assert!(document(layers::MOST as i32).contains("<path"));
    let scene = heap(4000);
    let document = document(4000);
    assert!(!document.contains("<path"));
    let (_, image) = document.split_once("base64,").unwrap();
    let (image, _) = image.split_once('"').unwrap();
    let image = STANDARD.decode(image).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(image))
        .read_info()
        .unwrap();
    let mut painted = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut painted).unwrap();
    let expected = pixels(&scene);
    let (expected, _) = expected.as_chunks::<4>();
    let expected: Vec<u8> = expected
        .iter()
        .flat_map(|&[r, g, b, _]| [r, g, b])
        .collect();
    assert!(painted == expected);
}

#[test]
fn a_document_is_small_and_its_texts_are_texts() {
    let mut scene = Scene::new((40, 30));
    scene.fill(
        PxRect {
            x0: 0,
            y0: 0,
            x1: 40,
            y1: 20,
        },
        Rgba(200, 200, 200, 255),
    );
    scene.fill(
        PxRect {
            x0: 4,
            y0: 4,
            x1: 6,
            y1: 8,
        },
        Rgba(0, 0, 0, 128),
    );
    scene.fill(
        PxRect {
            x0: 6,
            y0: 3,
            x1: 9,
            y1: 8,
        },
        Rgba(0, 0, 0, 128),
    );
    scene.hatch(
        PxRect {
            x0: 20,
            y0: 4,
            x1: 30,
            y1: 18,
        },
        Rgba(0, 0, 0, 128),
        3,
    );
    scene.texts.push(Text {
        x: 20,
        y: 25,
        anchor: Anchor::Middle,
        size: 10.0,
        colour: Rgba(0, 0, 0, 255),
        text: "<b>names & texts</b>\u{1}".to_owned(),
    });
    insta::assert_snapshot!(String::from_utf8(svg(&scene)).unwrap());
}
