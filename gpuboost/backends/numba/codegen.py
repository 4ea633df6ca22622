from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment


class HelperLibrary(JITCodeLibrary):
    def add_linking_library(self, library):
        self._linking_libraries.append(library)

    def add_llvm_module(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)

    def finalize(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0


class EntryLibrary(JITCodeLibrary):
    def add_linking_library(self, library):
        self._linking_libraries.append(library)

    def add_llvm_module(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)

    def finalize(self):
        todo, seen = list(self._linking_libraries), {}
        while todo:
            library = todo.pop()
            if library in seen:
                continue
            seen[library] = True
            if isinstance(library, HelperLibrary):
                todo.extend(library._linking_libraries)
        self._linking_libraries = list(seen)
        super().finalize()
        for variable in self._final_module.global_variables:
            if variable.name.startswith("_ZN08NumbaEnv"):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self._codegen.set_env(variable.name, environment)


class _OwnLibrary(Compiler):
    library_class = None

    def define_pipelines(self):
        state = self.state
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


def _no_executable(library, fndesc, env):
    library._ensure_finalized()
    return _dynfunc.make_function(
        fndesc.lookup_module(), fndesc.qualname.split(".")[-1], "", 0, env, (library,)
    )


class HelperCompiler(_OwnLibrary):
    library_class = HelperLibrary

    def define_pipelines(self):
        self.state.targetctx.get_executable = _no_executable
        return super().define_pipelines()


class EntryCompiler(_OwnLibrary):
    library_class = EntryLibrary
