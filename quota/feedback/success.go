package feedback

import (
	"slices"
	"strings"
)

// hasContent reports whether a document holds more than an error does. It is
// then an answer with content, such as a record of a job that has failed.
func hasContent(doc any) bool {
	object, _ := doc.(map[string]any)
	_, isRPC := object["jsonrpc"]
	for key, v := range object {
		word := strings.ToLower(separators.Replace(key))
		isIn := func(part string) bool { return strings.Contains(word, part) }
		isAbout := slices.ContainsFunc(common.Errors.About, isIn) || isRPC && word == "id"
		_, isFlag := v.(bool)
		saysNothing := isFlag || isEmpty(v) || v == ""
		if !saysNothing && !isAbout && !slices.Contains(common.Errors.Beside, word) {
			return true
		}
	}
	return false
}

// errorTexts returns the texts of the error in the document of a successful
// answer, and whether it has one.
func errorTexts(doc any) (texts []string, isError bool) {
	object, _ := doc.(map[string]any)
	var hasError, hasCode, hasData bool
	for _, key := range sortedKeys(object) {
		v := object[key]
		text, isText := scalar(v)
		word := strings.ToLower(separators.Replace(key))
		switch {
		case slices.Contains(common.Errors.Keys, word):
			if isThere := !isEmpty(v) && text != "false" && text != "0"; isThere {
				hasError = true
				texts = collectTexts(v, texts, 0)
			}
		case slices.Contains(common.Errors.Codes, word):
			n, _ := decimal(text)
			isOther := n > 1 && (n < 200 || n >= 300)
			isObject := !isText && !isEmpty(v)
			hasCode = hasCode || isOther || isObject
			hasError = hasError || isErrorValue(text)
			if text == "429" {
				texts = append(texts, "too many requests")
			}
			if isText && saysLimited([]string{text}) {
				hasError, texts = true, append(texts, text)
			}
		case word == "message" && isErrorValue(text):
			hasError = true
		case word == "success", word == "ok":
			hasError = hasError || text == "false"
		case strings.HasPrefix(word, "result"), word == "data":
			if isText && saysLimited([]string{text}) {
				texts = append(texts, text)
			}
			hasData = hasData || !isEmpty(v)
		}
	}
	isError = hasError || hasCode && !hasData
	if len(texts) == 0 && isError {
		texts = append(texts, messageOf(doc))
	}
	return texts, isError
}

func isErrorValue(text string) bool {
	return slices.Contains(common.Errors.Values, strings.ToLower(text))
}

// isEmpty reports whether a JSON value holds nothing.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil
}
