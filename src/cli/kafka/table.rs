//! Tables as several of Kafka's tools print them: each column as wide as its longest cell, a tab behind each.

use super::say;

/// Prints a table, its headers first.
pub fn print<const N: usize>(headers: [&str; N], rows: &[[String; N]]) {
    let mut widths = headers.map(|header| header.chars().count());
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let print_row = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}\t"));
        say!("{}", cells.collect::<String>());
    };
    print_row(headers);
    rows.iter().for_each(|row| print_row(row.each_ref().map(String::as_str)));
}
