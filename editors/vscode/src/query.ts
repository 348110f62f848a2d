/** Filters inside a query: `repo:acme/app lang:go path:src/** retry with back-off`. */

import { Filters } from "./api";

const NAMES = { repo: "repositories", lang: "languages", path: "paths" } as const;
export type FilterName = keyof typeof NAMES;

const FILTER = /(^|\s)(repo|lang|path):(\S+)/g;

/** Return the words of the query and its filters. A `!` before a value excludes it. */
export function parsed(text: string): { query: string; filters: Filters } {
  const filters: Filters = { repositories: [], languages: [], paths: [] };
  const query = text.replace(FILTER, (_, space: string, name: FilterName, value: string) => {
    filters[NAMES[name]].push(value);
    return space;
  });
  return { query: query.trim(), filters };
}

/** Return the text with one filter set to exactly these values. */
export function withFilter(text: string, name: FilterName, values: readonly string[]): string {
  const kept = text.replace(FILTER, (found, _, other: FilterName) => (other === name ? "" : found));
  return [...values.map((value) => `${name}:${value}`), kept.trim()].join(" ").trimStart();
}
