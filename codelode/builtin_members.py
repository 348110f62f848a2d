"""List the names of the members of each language's built-in types.

`seen.copy()` most likely copies a set, even if the file imports a class that has a member `copy`.
The types are those that need no import, and in Java and Rust also the collections.
"""

from __future__ import annotations

from collections.abc import Mapping

_PYTHON = frozenset(
    name
    for type_ in (bytes, complex, dict, float, frozenset, int, list, set, str, tuple, BaseException)
    for name in dir(type_)
)

_OTHERS = {
    "ecmascript": (
        "add apply at bind call catch charAt charCodeAt clear codePointAt concat copyWithin delete "
        "endsWith entries every exec fill filter finally find findIndex findLast flat flatMap "
        "forEach get has hasOwnProperty includes indexOf join keys lastIndexOf localeCompare map "
        "match matchAll next normalize padEnd padStart pop push reduce reduceRight repeat replace "
        "replaceAll reverse search set shift slice some sort splice split startsWith substring "
        "test then toFixed toISOString toJSON toLocaleString toLowerCase toString toUpperCase trim "
        "trimEnd trimStart unshift valueOf values"
    ),
    "jvm": (
        "accept add addAll all and any apply append charAt clear clone close collect compareTo "
        "compute computeIfAbsent contains containsKey copy count delete distinct drop "
        "endsWith entrySet equals exists filter find findFirst first flatMap flatten fold foldLeft "
        "forEach foreach format get getClass getKey getMessage getOrDefault getOrElse getValue "
        "groupBy hasNext hashCode head indexOf insert intValue isBlank isDefined isEmpty isPresent "
        "iterator join keySet last length let limit map matches max min mkString next nonEmpty "
        "notify of orElse orElseGet peek poll pop push put putAll putIfAbsent reduce remove "
        "removeIf replace reverse run set size sort sorted split startsWith stream substring sum "
        "tail take test toArray toInt toList toLowerCase toMap toSet toString toUpperCase trim "
        "update values wait zip"
    ),
    "ruby": (
        "all? any? call chomp class clear collect compact concat count delete detect dig downcase "
        "dup each each_pair each_with_index each_with_object empty? end_with? fetch find first "
        "flatten freeze frozen? gsub has_key? include? index inject insert inspect is_a? join key? "
        "keys last length map match max merge merge! method min new nil? pop push reduce reject "
        "respond_to? reverse scan select send shift size slice sort sort_by split start_with? "
        "strip sub sum tap to_a to_h to_hash to_i to_json to_s to_str to_sym uniq unshift upcase "
        "update values zip"
    ),
    "rust": (
        "all and_then any as_bytes as_mut as_ref as_slice as_str borrow borrow_mut chain chars "
        "clear clone cloned cmp collect contains contains_key copied count dedup drain ends_with "
        "entry enumerate eq err expect extend filter filter_map find first flat_map flatten fold "
        "for_each from get get_mut get_or_insert_with index insert into into_iter is_empty is_err "
        "is_none is_ok is_some is_some_and iter iter_mut join keys last len lines load lock map "
        "map_err max min next ok ok_or ok_or_else or_else or_insert parse peek pop position push "
        "push_str read remove replace resize retain rev skip sort split starts_with store "
        "strip_prefix sum swap take then to_owned to_string to_vec trim truncate try_from try_into "
        "unwrap unwrap_err unwrap_or unwrap_or_default unwrap_or_else values with_capacity write "
        "zip"
    ),
    "csharp": (
        "Add AddRange All Any Append Clear Clone CompareTo Concat Contains ContainsKey CopyTo "
        "Count Dispose EndsWith Equals Except First FirstOrDefault Format GetEnumerator "
        "GetHashCode GetType GetValue IndexOf Insert Invoke Join Last Length Max Min MoveNext "
        "OrderBy Remove RemoveAt Replace Reverse Select SelectMany SequenceEqual Single Skip Sort "
        "Split StartsWith Substring Sum Take ToArray ToDictionary ToList ToLower ToString ToUpper "
        "Trim TryGetValue Where"
    ),
    "swift": (
        "append compactMap contains count dropFirst dropLast enumerated filter first flatMap "
        "forEach hash hasPrefix hasSuffix index insert joined last map max min popLast prefix "
        "reduce remove removeAll removeFirst removeLast replacingOccurrences reversed sorted split "
        "suffix"
    ),
}

#: By the name of the scope (`codelode.language_table`).
BUILTIN_MEMBERS: Mapping[str, frozenset[str]] = {
    "python": _PYTHON,
    **{scope: frozenset(names.split()) for scope, names in _OTHERS.items()},
}
