//! Curves as one SVG.
//!
//! Owns: [`Chart`] and drawing several of them, two below each other for each curve. Does not own: the
//! points. The paper is white whatever the page behind it, so that the picture reads on light and dark
//! pages alike. Lines differ in colour and in the order of the legend; the colours are ones that people who
//! confuse red and green tell apart.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Serialize;

/// Pixels of one chart.
const CHART: (u32, u32) = (460, 340);
/// Charts below each other.
const ROWS: usize = 2;
const FONT: &str = "sans-serif";
/// From the palette of Okabe and Ito; grey last, for what is compared with.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(120, 120, 120)];
/// What the largest value leaves free above it, for the legend.
const HEADROOM: f64 = 1.5;

/// One axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What is along it, with its unit.
    pub label: String,
    /// Whether each step is ten times the one before.
    pub log: bool,
}

/// One line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// As the legend has it.
    pub name: String,
    /// In ascending order of x.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x: Axis,
    /// Beside it.
    pub y: Axis,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    /// Whether all lines rise steeply in the end: the legend is on the left then.
    pub steep: bool,
}

impl Axis {
    /// Where a value is along it.
    fn place(&self, value: f64) -> f64 {
        // A time of nothing at all has no logarithm.
        if self.log { value.max(1e-6).log10() } else { value }
    }

    /// The part of it that shows all `values`: whole powers of ten, or zero to `headroom` times the largest.
    fn range(&self, values: impl Iterator<Item = f64>, headroom: f64) -> Range<f64> {
        let (low, high) = values
            .map(|value| self.place(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(place), high.max(place)));
        if !low.is_finite() || !high.is_finite() {
            return 0.0..1.0;
        }
        if self.log {
            let low = low.floor();
            return low..high.ceil().max(low + 1.0);
        }
        0.0..(high * headroom).max(1.0)
    }

    /// What stands at a place; nothing between the powers of ten.
    fn shown(&self, place: f64) -> String {
        let value = if self.log { 10_f64.powf(place) } else { place };
        let between = self.log && (place - place.round()).abs() > 1e-6;
        if between { String::new() } else { short(value) }
    }
}

/// Draws `charts` to an SVG file, the first [`ROWS`] below each other on the left, the next beside them.
pub fn draw(path: &Path, charts: &[Chart]) -> Result<()> {
    let columns = charts.len().div_ceil(ROWS);
    let (width, height) = CHART;
    let size = (width * u32::try_from(columns)?, height * u32::try_from(ROWS)?);
    let paper = SVGBackend::new(path, size).into_drawing_area();
    paper.fill(&WHITE)?;
    let places = paper.split_evenly((ROWS, columns));
    for (index, chart) in charts.iter().enumerate() {
        let place = (index % ROWS) * columns + index / ROWS;
        let place = places.get(place).context("there are more charts than places")?;
        draw_chart(place, chart)?;
    }
    paper.present()?;
    Ok(())
}

fn draw_chart(place: &DrawingArea<SVGBackend<'_>, Shift>, chart: &Chart) -> Result<()> {
    let points = || chart.lines.iter().flat_map(|line| line.points.iter().copied());
    let x_range = chart.x.range(points().map(|(x, _)| x), 1.0);
    let y_range = chart.y.range(points().map(|(_, y)| y), HEADROOM);
    let mut drawn = ChartBuilder::on(place)
        .caption(chart.title.as_str(), (FONT, 18))
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x_range, y_range)?;
    drawn
        .configure_mesh()
        .x_desc(chart.x.label.as_str())
        .y_desc(chart.y.label.as_str())
        .x_labels(9)
        .y_labels(9)
        .max_light_lines(0)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_label_formatter(&|place| chart.x.shown(*place))
        .y_label_formatter(&|place| chart.y.shown(*place))
        .draw()?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        let places = line.points.iter().map(|(x, y)| (chart.x.place(*x), chart.y.place(*y)));
        drawn
            .draw_series(LineSeries::new(places.clone(), style))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], style));
        drawn.draw_series(places.map(|place| Circle::new(place, 3, colour.filled())))?;
    }
    // Where no line is: above what grows from zero, between lines that are powers of ten apart.
    let between = chart.y.log && !chart.steep;
    let legend = if between { SeriesLabelPosition::MiddleRight } else { SeriesLabelPosition::UpperLeft };
    drawn
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.25))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}

/// A number as an axis shows it.
fn short(value: f64) -> String {
    match value.abs() {
        millions if millions >= 999_999.0 => format!("{} M", trimmed(value / 1e6)),
        thousands if thousands >= 999.9 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

/// Three decimals at most, no zeros behind.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
