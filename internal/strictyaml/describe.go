package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/ration-dev/ration/internal/human"
)

// describe returns n as messages show it.
func (n Node) describe() string {
	switch node := n.node.(type) {
	case nil:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		if node.Token == nil || node.Token.Type != token.NullType {
			return "empty"
		}
		return node.Token.Value
	case *ast.StringNode:
		return quote(node.Value)
	}
	return printable(firstToken(n.node).Value)
}

// firstToken returns the first token of a node.
func firstToken(node ast.Node) *token.Token {
	switch node := node.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !node.IsFlowStyle && len(node.Values) > 0 {
			return firstToken(node.Values[0].Key)
		}
		return node.Start
	case *ast.MappingValueNode:
		return firstToken(node.Key)
	case *ast.SequenceNode:
		return node.Start
	}
	return node.GetToken()
}

// isDecimal reports whether s is a decimal integer without leading zeros.
func isDecimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '0' && s != "0" {
		return false
	}
	return !strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
}

// maxQuoted is how much of a text is quoted.
const maxQuoted = 60

// quote returns text from a file fit for a terminal, in quotes.
func quote(s string) string { return fmt.Sprintf("%q", human.Shorten(s, maxQuoted)) }

// printable is like quote, without the quotes.
func printable(s string) string { return human.Printable(human.Shorten(s, maxQuoted)) }
