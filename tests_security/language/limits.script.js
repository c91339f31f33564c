// Limits on the text: nesting, regular expressions, numbers. (Those on whole scripts: tests/sandbox/agentscript.)
--- brackets nested 65 deep
return (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))); //! UnsafeSource Script has brackets nested deeper than 64
--- brackets of all kinds nested 65 deep
return [[[[[[[[[[[[[[[[[[[[[[(((((((((((((((((((((([[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]))))))))))))))))))))))]]]]]]]]]]]]]]]]]]]]]]; //! UnsafeSource Script has brackets nested deeper than 64
--- templates nested 65 deep
return `${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${`${1}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`}`; //! UnsafeSource Script has brackets nested deeper than 64
--- blocks nested 65 deep
{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}} //! UnsafeSource Script has brackets nested deeper than 64
--- a hundred findings are enough
eval;eval;eval; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
