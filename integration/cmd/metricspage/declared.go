package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// buildInfo is the function of pkg/obs that creates a metric whose name the caller
// passes.
const buildInfo = "BuildInfo"

// declared returns the metrics that a service declares. It reads the calls of the
// Prometheus client's constructors, so it finds metrics whose series appear late, too.
func declared(root, service string) ([]metric, error) {
	r := &reader{prefix: "penstock_" + service + "_"}
	if err := r.folder(filepath.Join(root, "pkg", "obs")); err != nil {
		return nil, err
	}
	if err := r.folder(filepath.Join(root, service)); err != nil {
		return nil, err
	}
	return r.found, r.err
}

// reader collects declarations.
type reader struct {
	prefix string
	found  []metric
	// build is the metric that buildInfo creates, without its name.
	build metric
	// constants are the constants of the package that is being read.
	constants map[string]ast.Expr
	err       error
}

func (r *reader) folder(path string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		names, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		var files []*ast.File
		r.constants = make(map[string]ast.Expr)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, r.constant)
			files = append(files, file)
		}
		for _, file := range files {
			ast.Inspect(file, r.call)
		}
		return nil
	})
}

// constant records the constants of a package.
func (r *reader) constant(n ast.Node) bool {
	if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
		for i, name := range spec.Names {
			r.constants[name.Name] = spec.Values[i]
		}
	}
	return true
}

// call records a call that creates a metric.
func (r *reader) call(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return true
	}
	function := ""
	fun := call.Fun
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		function = f.Sel.Name
	case *ast.Ident:
		function = f.Name
	}
	switch kind, found := strings.CutPrefix(function, "New"); {
	case found && kind == "Desc" && len(call.Args) == 4:
		r.add("gauge", call.Args[0], call.Args[1], call.Args[2])
	case found && isKind(kind):
		r.constructor(kind, call)
	case isKind(function) && len(call.Args) > 2 && isObs(call.Fun):
		r.helper(function, call.Args[1:])
	case function == buildInfo:
		if name, err := r.text(call.Args[0]); err == nil {
			m := r.build
			m.name = name
			r.found = append(r.found, m)
		}
	case function == "gauge" && len(call.Args) == 2:
		r.add("gauge", call.Args[0], call.Args[1], nil)
	}
	return true
}

// isObs reports whether a function is one of package obs.
func isObs(function ast.Expr) bool {
	if generic, ok := function.(*ast.IndexExpr); ok {
		function = generic.X
	}
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "obs"
}

// helper records a metric that a function of package obs makes of its name, its help and its
// labels. Counters have one label.
func (r *reader) helper(function string, args []ast.Expr) {
	kind := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(function, "Vec"), "Func"))
	labels := &ast.CompositeLit{}
	switch function {
	case "CounterVec":
		labels.Elts = args[2:3]
	case "GaugeVec":
		labels.Elts = args[2:]
	}
	r.add(kind, args[0], args[1], labels)
}

// isKind reports whether kind is a counter, a gauge or a histogram.
func isKind(kind string) bool {
	kind = strings.TrimSuffix(strings.TrimSuffix(kind, "Vec"), "Func")
	return kind == "Counter" || kind == "Gauge" || kind == "Histogram"
}

// constructor records a metric whose options are a literal.
func (r *reader) constructor(kind string, call *ast.CallExpr) {
	var labels ast.Expr
	if strings.HasSuffix(kind, "Vec") && len(call.Args) > 1 {
		labels = call.Args[1]
	}
	kind = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Vec"), "Func"))
	options, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return
	}
	var name, help ast.Expr
	for _, element := range options.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			switch key, _ := pair.Key.(*ast.Ident); key.Name {
			case "Name":
				name = pair.Value
			case "Help":
				help = pair.Value
			}
		}
	}
	if _, err := r.text(name); err != nil {
		text, _ := r.text(help) // only the build metric gets its name as a parameter
		if text != "" {
			r.build = metric{kind: kind, help: text, labels: []string{"version"}}
		}
		return
	}
	r.add(kind, name, help, labels)
}

func (r *reader) add(kind string, name, help, labels ast.Expr) {
	m := metric{kind: kind}
	var err error
	if m.name, err = r.text(name); err != nil || !strings.HasPrefix(m.name, r.prefix) {
		return // not a metric, although it is called gauge
	}
	if m.help, err = r.text(help); err != nil {
		r.err = fmt.Errorf("help of %s: %w", m.name, err)
	}
	if list, ok := labels.(*ast.CompositeLit); ok {
		for _, element := range list.Elts {
			label, err := r.text(element)
			if err != nil {
				r.err = fmt.Errorf("labels of %s: %w", m.name, err)
			}
			m.labels = append(m.labels, label)
		}
	}
	r.found = append(r.found, m)
}

// text evaluates a constant string expression.
func (r *reader) text(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.ParenExpr:
		return r.text(e.X)
	case *ast.BinaryExpr:
		x, err := r.text(e.X)
		if err != nil {
			return "", err
		}
		y, err := r.text(e.Y)
		return x + y, err
	case *ast.Ident:
		if value, ok := r.constants[e.Name]; ok && value != e {
			return r.text(value)
		}
	}
	return "", errNotConstant
}
