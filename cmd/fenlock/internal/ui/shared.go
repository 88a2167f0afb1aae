package ui

import "net/http"

// What another page of this program needs to look and to behave like this one.

// Guard lets next see only requests that were meant for this program, from no other site,
// and gives its answers the headers of the page. It answers to addresses and localhost.
func Guard(next http.Handler) http.Handler { return newGuard(nil, next) }

// Style returns what answers with the style sheet.
func Style() http.Handler { return newAsset("style.css") }

// Icon returns what answers with the icon.
func Icon() http.Handler { return newAsset("icon.svg") }
